package field;

/** Locks as one client library has them. */
interface Library {
    /**
     * A worker of the kind "lock", "fair", "session", "read", "write", "semaphore" or "latch"; of a semaphore, limit is how
     * many permits there are. Thread-bound libraries know workers by their threads, so what it returns is used by one.
     */
    Worker worker(String kind, int limit) throws Exception;

    /** Sets a latch that is to be counted down once. */
    default void closeLatch(String name) {
        throw new UnsupportedOperationException("not offered");
    }

    default void openLatch(String name) {
        throw new UnsupportedOperationException("not offered");
    }
}
