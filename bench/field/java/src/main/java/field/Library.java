package field;

/** The locks of one client library. */
interface Library {
    /**
     * A worker of the kind "lock", "fair", "session", "read", "write", "semaphore" or "latch"; for a semaphore, limit is the
     * number of permits. Thread-bound libraries identify workers by their threads, so one thread uses the returned worker.
     */
    Worker worker(String kind, int limit) throws Exception;

    /** Sets a latch that opens when it is counted down once. */
    default void closeLatch(String name) {
        throw new UnsupportedOperationException("not offered");
    }

    default void openLatch(String name) {
        throw new UnsupportedOperationException("not offered");
    }
}
