package so.lock;

import so.lock.wire.ServerException;

/** A lock was not had. Errors of the connection are not among these: they are the library's own. */
public class LockException extends RuntimeException implements LockError {
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

    /** The exception for an error of the server. */
    static RuntimeException of(ServerException e) {
        return switch (e.code()) {
            case "NOTHELD" -> new NotHeldException(e.getMessage());
            case "DEADLOCK" -> new Deadlock(e.getMessage());
            case "NOREPLICAS" -> new NoReplicas(e.getMessage());
            default -> new Refused(e.code(), e.getMessage());
        };
    }

    /** It was not free in time. */
    public static final class NotAcquired extends LockException {
        private static final long serialVersionUID = 1;

        NotAcquired(String name) {
            super("NOTACQUIRED", name + " was not free in time");
        }
    }

    /** The wait would never have ended; the text names who waits for whom. */
    public static final class Deadlock extends LockException {
        private static final long serialVersionUID = 1;

        Deadlock(String text) {
            super("DEADLOCK", text);
        }
    }

    /** Too few replicas have the grant, and it was given back. */
    public static final class NoReplicas extends LockException {
        private static final long serialVersionUID = 1;

        NoReplicas(String text) {
            super("NOREPLICAS", text);
        }
    }

    /** Any other error of the server; {@link #code} tells which. */
    public static final class Refused extends LockException {
        private static final long serialVersionUID = 1;

        Refused(String code, String text) {
            super(code, text);
        }
    }
}
