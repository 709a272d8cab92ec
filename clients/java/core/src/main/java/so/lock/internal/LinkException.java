package so.lock.internal;

/** A connection could not be opened, was lost, or had no reply in time. */
public final class LinkException extends Exception {
    private static final long serialVersionUID = 1;

    /** @param cause the library's own exception, which is thrown to the user when the wait times out */
    public LinkException(RuntimeException cause) {
        super(words(cause), cause);
    }

    /**
     * The words of an exception of a client library, and those of what caused it, which say more: that the connection
     * was refused, where the library only says that it failed.
     */
    public static String words(Throwable failure) {
        String text = failure.getMessage() == null ? failure.toString() : failure.getMessage();
        String cause = text;
        for (Throwable next = causeOf(failure); next != null; next = causeOf(next)) {
            cause = next.getMessage() == null ? cause : next.getMessage();
        }
        return text.contains(cause) ? text : text.replaceFirst("\\.$", "") + ": " + cause;
    }

    /** Jedis adds why it could not connect as a suppressed exception. */
    private static Throwable causeOf(Throwable failure) {
        Throwable[] suppressed = failure.getSuppressed();
        return failure.getCause() != null || suppressed.length == 0 ? failure.getCause() : suppressed[0];
    }

    /** The library's own exception. */
    public RuntimeException original() {
        return (RuntimeException) getCause();
    }
}
