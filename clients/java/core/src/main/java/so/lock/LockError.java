package so.lock;

/** The interface of every exception of the locks. */
public interface LockError {
    /** The server's error code, such as {@code NOTHELD}; {@code NOTACQUIRED} if the wait timed out, {@code CLOSED}. */
    String code();
}
