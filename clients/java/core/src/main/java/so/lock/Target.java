package so.lock;

/** What a lock object stands for: one request, several of them, or a majority of servers. */
interface Target {
    /** The lock in texts. */
    LockName named();

    /** Whether its holds have fencing tokens. */
    boolean fenced();

    /**
     * Acquires a new hold.
     *
     * @return null if it was not acquired in time; not if the attempt is explained
     */
    Hold acquire(Attempt attempt) throws InterruptedException, NotAcquiredException;

    /** The same for an attempt that is not explained. */
    default Hold tryAcquire(Attempt attempt) throws InterruptedException {
        try {
            return acquire(attempt);
        } catch (NotAcquiredException e) {
            throw new AssertionError(e);
        }
    }

    /** Acquires the other mode of a read-write lock for the same owner. False: not in time. */
    default boolean extend(Hold hold, Attempt attempt) throws InterruptedException {
        throw new AssertionError("it has only one mode");
    }

    /** Ends what a thread holds; with {@code last} nothing is left of it, otherwise the other mode of a read-write lock. */
    default void unlock(Hold hold, boolean last) {
        hold.release();
    }

    /** Whether any owner holds it, or a part of it. */
    boolean isLocked();

    /** Who holds it and who waits for it. */
    LockInfo info();

    /** Takes it away from its owners; whether there were any. */
    boolean force();
}
