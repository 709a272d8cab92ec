package field;

/** One of the workers that use locks at the same time; it is used by one thread. An error ends the program. */
interface Worker {
    /** Returns when the worker holds the lock. */
    void acquire(String name) throws Exception;

    /** Gives up after the limit; then returns false. */
    boolean acquireWithin(String name, long milliseconds) throws Exception;

    void release(String name) throws Exception;
}
