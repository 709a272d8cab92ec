package so.lock;

/** What every exception of the locks implements. */
public interface LockFailure {
    /** The server's error code, such as {@code NOTHELD}; {@code NOTACQUIRED} if the wait timed out, {@code CLOSED}. */
    String code();
}
