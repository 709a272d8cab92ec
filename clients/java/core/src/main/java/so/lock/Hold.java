package so.lock;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.time.Duration;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.Consumer;

/**
 * A lock that is held, or permits. Any thread may use it. Close it when the work is done. In a try-with-resources
 * statement an exception of the body is thrown unchanged, and one of {@link #close} is added to it as suppressed. One
 * that is garbage-collected is released, with a warning in the log.
 */
public final class Hold implements AutoCloseable {
    final Holding holding;
    final Consumer<Hold> listener; // null: none
    private final Cleaner.Cleanable forgotten;

    Hold(Holding holding, Consumer<Hold> listener) {
        this.holding = holding;
        this.listener = listener;
        this.forgotten = Locks.CLEANER.register(this, holding::forgotten);
    }

    /** The owner's name on the server, {@code host:pid:random}; an argument of {@code LOCK.GUARD}. */
    public String owner() {
        return holding.owner;
    }

    /** The key; the first one of a multi-key lock. */
    public String key() {
        return holding.request.key();
    }

    /** All keys. */
    public List<String> keys() {
        return holding.request.keys();
    }

    /** The fencing token, a number that only increases for this lock; empty if none was requested. */
    public OptionalLong token() {
        return holding.token;
    }

    /** How many permits of a semaphore this hold still has; 1 for a lock. */
    public int permits() {
        return holding.permits;
    }

    /**
     * Whether it is known to be lost: the server has reported it, or the hold was not confirmed for as long as its
     * lease.
     */
    public boolean isLost() {
        return holding.isLost();
    }

    /**
     * Releases it, whether or not the thread is interrupted.
     *
     * @throws NotHeldException if it was lost before, or is released already
     * @throws LockException if the server refuses
     * @throws RuntimeException the library's, if there was no connection until the lease expired
     */
    public void release() {
        end(holding::release);
    }

    /** The same as {@link #release()}, but does nothing if it is released already. */
    @Override
    public void close() {
        if (!holding.isReleased()) {
            release();
        }
    }

    /**
     * Releases some of its permits, or all of them.
     *
     * @throws NotHeldException as {@link #release()}
     */
    public void release(int count) {
        end(() -> holding.release(count));
    }

    /**
     * Renews it now, also without automatic renewal. For a session it only checks that it is still held.
     *
     * @throws NotHeldException if it was lost or released
     */
    public void renew() {
        holding.renew(0);
    }

    /**
     * Renews it now, and gives it another lease, which also applies to later renewals. A shorter one applies from the
     * moment when it is sent, even if there is no reply; a longer one when there is a reply.
     *
     * @param lease greater than 0; not for a session
     * @throws NotHeldException if it was lost or released
     */
    public void renew(Duration lease) {
        holding.renew(LockOptions.checkTime("lease", lease));
    }

    /**
     * Runs a command on the server if the lock is held at that moment, by {@code LOCK.GUARD}; of a multi-key lock the
     * first key. It is not sent again after a lost connection, because it may have been executed.
     *
     * @param command the command and its arguments
     * @return its reply: a Long, a String, null, or a List of these; other types as the library reads them
     * @throws NotHeldException if it was lost or released: then the command was not executed
     * @throws LockException if the server refuses
     */
    public Object guard(String... command) {
        return holding.guard(List.of(command));
    }

    /** Releases the rest; for a read-write lock this may be another mode than the first one. */
    void releaseLast(Request mode) {
        end(() -> holding.unlock(mode));
    }

    private void end(Runnable release) {
        try {
            release.run();
        } finally {
            if (holding.isReleased()) {
                forgotten.clean();
            }
            Reference.reachabilityFence(this);
        }
    }

    @Override
    public String toString() {
        return holding.toString();
    }
}
