package so.lock.internal;

import java.nio.charset.Charset;
import java.util.List;

/** One connection, for one command at a time. The library must neither repeat a command on it nor reconnect it. */
public interface Line extends AutoCloseable {
    /**
     * Sends a command and waits for its reply, whether or not the thread is interrupted meanwhile.
     *
     * @param timeoutMs how long to wait for the reply
     * @param charset how words are encoded and strings in the reply are decoded
     * @param onInterrupt called once, on any thread, when the calling thread is interrupted, and at once if it is
     *     interrupted already; it must not block. Null: not called. The thread stays interrupted.
     * @return a {@link Long}, a {@link String}, null, or a list of these and of lists; a map as a list of keys and values
     * @throws LinkException if the connection is lost or closed, or there is no reply in time; it cannot be used any more
     * @throws ServerException if the reply is an error
     */
    Object send(int timeoutMs, List<String> words, Charset charset, Runnable onInterrupt)
            throws LinkException, ServerException;

    /** Closes it, from any thread, without blocking: a pending {@link #send} fails. */
    @Override
    void close();
}
