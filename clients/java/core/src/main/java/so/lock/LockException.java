package so.lock;

import so.lock.internal.ServerException;

/**
 * The server refused a command: its error reply, whose code is {@link #code}; or the locks are closed. Connection errors
 * are the library's own exceptions.
 */
public class LockException extends RuntimeException implements LockFailure {
    private static final long serialVersionUID = 1;
    private final String code;

    LockException(String code, String text) {
        super(text);
        this.code = code;
    }

    @Override
    public String code() {
        return code;
    }

    /** The exception for an error reply of the server at this address. */
    static RuntimeException of(String named, ServerException e, String where) {
        String text = e.getMessage();
        return switch (e.code()) {
            case "NOTHELD" -> new NotHeldException(named, "");
            case "DEADLOCK" -> new Deadlock(text);
            case "NOREPLICAS" -> new NoReplicas(text);
            default -> new LockException(e.code(), text.startsWith("ERR unknown command")
                    ? "unknown command: is lock.so loaded on " + where + "?"
                    : text);
        };
    }

    /** The {@link Locks} were closed. */
    public static final class Closed extends LockException {
        private static final long serialVersionUID = 1;

        Closed() {
            super("CLOSED", Texts.CLOSED);
        }
    }

    /** The wait would have closed a cycle; the text names who waits for whom. */
    public static final class Deadlock extends LockException {
        private static final long serialVersionUID = 1;

        Deadlock(String text) {
            super("DEADLOCK", text);
        }
    }

    /** Too few replicas acknowledged the grant, and the lock was released. */
    public static final class NoReplicas extends LockException {
        private static final long serialVersionUID = 1;

        NoReplicas(String text) {
            super("NOREPLICAS", text);
        }
    }
}
