package field;

/** A delayed queue as one client library has it. */
interface Delayed {
    /** Returns when the server has it. */
    void push(String value, long milliseconds);

    /** Waits for the next element that is due. */
    String take() throws InterruptedException;
}
