package so.lock;

import java.util.regex.Pattern;
import so.lock.internal.ServerException;

/**
 * The server refused a command: its error reply, whose code is {@link #code}; or the locks are closed. The text names
 * the lock. Connection errors are the library's own exceptions.
 */
public class LockException extends RuntimeException implements LockFailure {
    private static final long serialVersionUID = 1;
    /** Not those that a program runs by {@code LOCK.GUARD}. */
    private static final Pattern UNKNOWN = Pattern.compile("ERR unknown command .(LOCK|LATCH|DELAY)[.]");

    private final String code;
    /** The text without the lock. */
    final String reason;

    LockException(String code, LockName named, String reason) {
        super(named + ": " + reason);
        this.code = code;
        this.reason = reason;
    }

    @Override
    public String code() {
        return code;
    }

    /** The exception for an error reply of the server at this address. */
    static RuntimeException of(LockName named, ServerException e, String where) {
        String text = e.getMessage();
        return switch (e.code()) {
            case "NOTHELD" -> new NotHeldException(named, "");
            case "DEADLOCK" -> new Deadlock(named, text);
            case "NOREPLICAS" -> new NoReplicas(named, text);
            default -> UNKNOWN.matcher(text).lookingAt()
                    ? new ModuleMissing(named, where)
                    : new LockException(e.code(), named, text);
        };
    }

    /** The {@link Locks} were closed. */
    public static final class Closed extends LockException {
        private static final long serialVersionUID = 1;

        Closed(LockName named) {
            super("CLOSED", named, Texts.CLOSED);
        }
    }

    /** The wait would have closed a cycle; the text names who waits for whom. */
    public static final class Deadlock extends LockException {
        private static final long serialVersionUID = 1;

        Deadlock(LockName named, String text) {
            super("DEADLOCK", named, text);
        }
    }

    /** The server does not know the command, because lock.so is not loaded. */
    public static final class ModuleMissing extends LockException {
        private static final long serialVersionUID = 1;

        ModuleMissing(LockName named, String where) {
            super("ERR", named, "unknown command: is lock.so loaded on " + where + "?");
        }
    }

    /** Too few replicas acknowledged the grant, and the lock was released. */
    public static final class NoReplicas extends LockException {
        private static final long serialVersionUID = 1;

        NoReplicas(LockName named, String text) {
            super("NOREPLICAS", named, text);
        }
    }
}
