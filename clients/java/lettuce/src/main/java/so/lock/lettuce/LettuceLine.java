package so.lock.lettuce;

import io.lettuce.core.RedisCommandTimeoutException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.CommandOutput;
import io.lettuce.core.output.NestedMultiOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.ByteBuffer;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import so.lock.internal.Line;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/** A connection of Lettuce that is used for one command at a time, unlike Lettuce's shared connections. */
final class LettuceLine implements Line {
    private final StatefulRedisConnection<String, String> connection;
    private final LettuceWire wire;

    LettuceLine(StatefulRedisConnection<String, String> connection, LettuceWire wire) {
        this.connection = connection;
        this.wire = wire;
    }

    @Override
    public Object send(int timeoutMs, List<String> words, Charset charset, Runnable onInterrupt)
            throws LinkException, ServerException {
        StringCodec codec = charset == StandardCharsets.UTF_8 ? StringCodec.UTF8 : new StringCodec(charset);
        try {
            CommandArgs<String, String> arguments = new CommandArgs<>(codec);
            for (String word : words.subList(1, words.size())) {
                arguments.addValue(word); // add(String) is ASCII in Lettuce 6
            }
            RedisFuture<Object> reply = connection.async().dispatch(new Word(words.get(0)), new Reply(codec), arguments);
            return await(reply, timeoutMs, onInterrupt);
        } catch (ExecutionException e) {
            throw LettuceWire.failure(e.getCause());
        } catch (TimeoutException e) {
            throw new LinkException(new RedisCommandTimeoutException("no reply within " + timeoutMs + " ms"));
        } catch (RuntimeException e) {
            throw LettuceWire.failure(e);
        }
    }

    /** Closes the connection. To cancel the future instead would leave the command on the server. */
    @Override
    public void close() {
        wire.close(connection);
    }

    private static Object await(RedisFuture<Object> future, int timeoutMs, Runnable onInterrupt)
            throws ExecutionException, TimeoutException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return future.get(end - System.nanoTime(), TimeUnit.NANOSECONDS);
                } catch (InterruptedException e) {
                    if (onInterrupt != null && !interrupted) {
                        onInterrupt.run();
                    }
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private record Word(String text) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return text.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String toString() {
            return text;
        }
    }

    /** A number, a string or null, or a list of these and of lists; a map is a list of keys and values. */
    private static final class Reply extends CommandOutput<String, String, Object> {
        private NestedMultiOutput<String, String> list;

        Reply(StringCodec codec) {
            super(codec, null);
        }

        @Override
        public Object get() {
            return list == null ? output : list.get();
        }

        @Override
        public void set(ByteBuffer bytes) {
            if (list != null) {
                list.set(bytes);
            } else {
                output = bytes == null ? null : codec.decodeValue(bytes);
            }
        }

        @Override
        public void set(long integer) {
            if (list != null) {
                list.set(integer);
            } else {
                output = integer;
            }
        }

        @Override
        public void set(double number) {
            if (list != null) {
                list.set(number);
            } else {
                output = number;
            }
        }

        @Override
        public void set(boolean value) {
            set(value ? 1 : 0);
        }

        @Override
        public void multi(int count) {
            if (list == null) {
                list = new NestedMultiOutput<>(codec);
            }
            list.multi(count);
        }

        @Override
        public void complete(int depth) {
            if (list != null) {
                list.complete(depth);
            }
        }
    }
}
