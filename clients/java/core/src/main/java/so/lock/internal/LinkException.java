package so.lock.internal;

/** A connection could not be opened, was lost, or had no reply in time. */
public final class LinkException extends Exception {
    private static final long serialVersionUID = 1;

    /** @param cause the library's own exception, which is thrown to the user when the wait times out */
    public LinkException(RuntimeException cause) {
        super(cause.getMessage(), cause);
    }

    /** The library's own exception. */
    public RuntimeException original() {
        return (RuntimeException) getCause();
    }
}
