package so.lock.wire;

import java.util.List;

/** One connection, for one command at a time. The library must not repeat a command on it, nor connect it again. */
public interface Line extends AutoCloseable {
    /**
     * Sends a command and waits for its reply, whether or not the thread is interrupted meanwhile.
     *
     * @param timeoutMs how long to wait for the reply
     * @param onInterrupt run once, on any thread, when the calling thread is interrupted, and at once if it is already;
     *     it must not block. Null: nothing is done. The thread stays interrupted.
     * @return a {@link Long}, a {@link String}, or null
     * @throws LinkException if the connection is lost, closed, or silent for too long; it is of no more use then
     * @throws ServerException if the reply is an error
     */
    Object ask(int timeoutMs, List<String> words, Runnable onInterrupt) throws LinkException, ServerException;

    /** Closes it, from any thread, without waiting: an {@link #ask} that is under way fails. */
    @Override
    void close();
}
