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
    final Held held;
    final Consumer<Hold> listener; // null: none
    private final Cleaner.Cleanable forgotten;

    Hold(Held held, Consumer<Hold> listener) {
        this.held = held;
        this.listener = listener;
        this.forgotten = Locks.CLEANER.register(this, held::forgotten);
    }

    /**
     * The owner's name on the server, {@code host:pid:random}; an argument of {@code LOCK.GUARD}. Of a lock that consists
     * of several, the owner of the first.
     */
    public String owner() {
        return held.owner();
    }

    /** The key; the first one of a multi-key lock. */
    public String key() {
        return held.keys().get(0);
    }

    /** All keys. */
    public List<String> keys() {
        return held.keys();
    }

    /** The holds of a lock that consists of several, in the order in which they were acquired; otherwise only this one. */
    public List<Hold> holds() {
        return held.parts().isEmpty() ? List.of(this) : held.parts();
    }

    /** The fencing token, a number that only increases for this lock; empty if none was requested. */
    public OptionalLong token() {
        return held.token();
    }

    /** How many permits of a semaphore this hold still has; 1 for a lock. */
    public int permits() {
        return held.permits();
    }

    /**
     * Whether it is known to be lost: the server has reported it, or the hold was not confirmed for as long as its
     * lease.
     */
    public boolean isLost() {
        return held.isLost();
    }

    /**
     * Releases it, whether or not the thread is interrupted.
     *
     * @throws NotHeldException if it was lost before, or is released already
     * @throws LockException if the server refuses
     * @throws RuntimeException the library's, if there was no connection until the lease expired
     */
    public void release() {
        end(held::release);
    }

    /** The same as {@link #release()}, but does nothing if it is released already. */
    @Override
    public void close() {
        if (!held.isReleased()) {
            release();
        }
    }

    /**
     * Releases some of its permits, or all of them.
     *
     * @throws NotHeldException as {@link #release()}
     */
    public void release(int count) {
        end(() -> held.release(count));
    }

    /**
     * Renews it now, also without automatic renewal. For a session it only checks that it is still held.
     *
     * @throws NotHeldException if it was lost or released
     */
    public void renew() {
        held.renew(0);
    }

    /**
     * Renews it now, and gives it another lease, which also applies to later renewals. A shorter one applies from the
     * moment when it is sent, even if there is no reply; a longer one when there is a reply.
     *
     * @param lease greater than 0; not for a session
     * @throws NotHeldException if it was lost or released
     */
    public void renew(Duration lease) {
        held.renew(LockOptions.checkTime("lease", lease));
    }

    /**
     * Runs a command on the server if the lock is held at that moment, by {@code LOCK.GUARD}; of a multi-key lock the
     * first key. Not for a lock on several servers or slots, of which {@link #holds} has the parts. It is not sent again
     * after a lost connection, because it may have been executed.
     *
     * @param command the command and its arguments
     * @return its reply: a Long, a String, null, or a List of these; other types as the library reads them
     * @throws NotHeldException if it was lost or released: then the command was not executed
     * @throws LockException if the server refuses
     */
    public Object guard(String... command) {
        return held.guard(List.of(command));
    }

    /** Releases the rest; for a read-write lock this may be another mode than the first one. */
    void releaseLast(Request mode) {
        end(() -> ((Holding) held).unlock(mode));
    }

    private void end(Runnable release) {
        try {
            release.run();
        } finally {
            if (held.isReleased()) {
                forgotten.clean();
            }
            Reference.reachabilityFence(this);
        }
    }

    @Override
    public String toString() {
        return held.toString();
    }
}
