package field;

/** A delayed queue of one client library. */
interface Delayed {
    /** Returns when the server has the element. */
    void push(String value, long milliseconds);

    /** Waits for the next element that is due. */
    String take() throws InterruptedException;
}
