package so.lock;

/** What every exception of the locks has in common, whatever else it is. */
public interface LockError {
    /** The server's error code, such as {@code NOTHELD}; {@code NOTACQUIRED} if the time was over. */
    String code();
}
