package so.lock.jedis;

import java.io.IOException;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.spi.AbstractInterruptibleChannel;
import java.nio.charset.Charset;
import java.util.List;
import java.util.stream.Stream;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.util.KeyValue;
import so.lock.internal.Line;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/** A connection of Jedis that is in no pool. */
final class JedisLine implements Line {
    private final Connection connection;

    JedisLine(Connection connection) {
        this.connection = connection;
    }

    @Override
    public Object send(int timeoutMs, List<String> words, Charset charset, Runnable onInterrupt)
            throws LinkException, ServerException {
        Reading reading = new Reading(onInterrupt);
        reading.enter();
        try {
            connection.setSoTimeout(timeoutMs);
            return reply(connection.executeCommand(arguments(words, charset)), charset);
        } catch (JedisDataException e) {
            throw new ServerException(e.getMessage());
        } catch (RuntimeException e) {
            throw new LinkException(e);
        } finally {
            reading.leave();
        }
    }

    @Override
    public void close() {
        try {
            connection.forceDisconnect();
        } catch (NoSuchMethodError e) {
            connection.disconnect(); // Jedis 5 and 6
        } catch (IOException e) {
            throw new AssertionError("a socket is closed quietly", e);
        }
    }

    private static CommandArguments arguments(List<String> words, Charset charset) {
        byte[] name = words.get(0).getBytes(charset);
        ProtocolCommand command = () -> name;
        CommandArguments arguments = new CommandArguments(command);
        for (String word : words.subList(1, words.size())) {
            arguments.add(word.getBytes(charset));
        }
        return arguments;
    }

    private static Object reply(Object reply, Charset charset) {
        if (reply instanceof byte[] bytes) {
            return new String(bytes, charset);
        }
        return reply instanceof List<?> list ? list.stream().flatMap(one -> elements(one, charset)).toList() : reply;
    }

    /** In RESP3 a map is a list of pairs. Stream.toList allows null. */
    private static Stream<Object> elements(Object element, Charset charset) {
        return element instanceof KeyValue<?, ?> pair
                ? Stream.of(reply(pair.getKey(), charset), reply(pair.getValue(), charset))
                : Stream.of(reply(element, charset));
    }

    /** The JDK's mechanism to be notified of an interrupt: a thread that reads from a socket is not. */
    private static final class Reading extends AbstractInterruptibleChannel {
        private final Runnable onInterrupt;

        Reading(Runnable onInterrupt) {
            this.onInterrupt = onInterrupt;
        }

        void enter() {
            if (onInterrupt != null) {
                begin();
            }
        }

        void leave() {
            try {
                if (onInterrupt != null) {
                    end(true);
                }
            } catch (AsynchronousCloseException e) {
                return; // onInterrupt has been called
            }
        }

        @Override
        protected void implCloseChannel() {
            onInterrupt.run();
        }
    }
}
