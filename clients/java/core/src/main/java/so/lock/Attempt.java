package so.lock;

import java.time.Duration;

/**
 * How long an acquisition may take, and for whom it is.
 *
 * @param waitMs 0: do not wait, negative: no limit
 * @param until when the wait ends, by nanoTime
 * @param interruptible whether an interrupt ends it
 * @param thread renewals end when this thread ends; null: none
 * @param explained whether the end of the time is a {@link NotAcquiredException}, which names the holders; otherwise null
 * @param watched whether a loss is to be noticed at once, whatever the options say
 */
record Attempt(long waitMs, long until, boolean interruptible, Thread thread, boolean explained, boolean watched) {
    private static Attempt of(long waitMs, boolean interruptible, Thread thread, boolean explained) {
        return new Attempt(waitMs, Call.until(waitMs), interruptible, thread, explained, false);
    }

    /** For a hold that is bound to the current thread. */
    static Attempt byThread(long waitMs, boolean interruptible) {
        return of(waitMs, interruptible, Thread.currentThread(), false);
    }

    /** For a hold that is bound to no thread. */
    static Attempt of(Duration wait) {
        return of(LockOptions.checkWait(wait), true, null, true);
    }

    /** The same without an explanation. */
    static Attempt silent(long waitMs, boolean interruptible) {
        return of(waitMs, interruptible, null, false);
    }

    /** The same for a member of a combined lock. */
    Attempt watching(boolean also) {
        return new Attempt(waitMs, until, interruptible, thread, explained, watched || also);
    }

    boolean isOver() {
        return System.nanoTime() - until >= 0;
    }
}
