package field;

/** One of those that use locks at the same time; one thread uses it. An error ends the program. */
interface Worker {
    /** Returns when the worker holds the lock. */
    void acquire(String name) throws Exception;

    /** Gives up after so long; false if it has. */
    boolean acquireWithin(String name, long milliseconds) throws Exception;

    void release(String name) throws Exception;
}
