package so.lock.wire;

/** A connection could not be made, was lost, or was silent for too long. */
public final class LinkException extends Exception {
    private static final long serialVersionUID = 1;

    /** @param cause the library's own exception, which users see when the time is over */
    public LinkException(RuntimeException cause) {
        super(cause.getMessage(), cause);
    }

    /** The library's own exception. */
    public RuntimeException original() {
        return (RuntimeException) getCause();
    }
}
