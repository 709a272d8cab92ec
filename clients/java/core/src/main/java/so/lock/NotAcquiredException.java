package so.lock;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeoutException;

/**
 * The lock could not be acquired in time; nothing is left on the server. If the last attempt failed because of the
 * connection, the cause is the library's exception.
 */
public final class NotAcquiredException extends TimeoutException implements LockFailure {
    private static final long serialVersionUID = 1;
    private final String[] keys;
    private final String[] holders;
    private final Duration timeout;

    NotAcquiredException(Request request, long waitMs, List<String> holders, Throwable cause, String where) {
        super(request.named() + " was not acquired" + (waitMs == 0 ? "" : " within " + Texts.seconds(waitMs) + " s")
                + (cause != null ? ": " + Texts.of(cause, where) : Texts.heldBy(holders)));
        this.keys = request.keys().toArray(String[]::new);
        this.holders = holders.toArray(String[]::new);
        this.timeout = Duration.ofMillis(waitMs);
        if (cause != null) {
            initCause(cause);
        }
    }

    @Override
    public String code() {
        return "NOTACQUIRED";
    }

    /** The keys of the lock. */
    public List<String> keys() {
        return List.of(keys);
    }

    /** The owners that held the lock just after the wait had timed out, as far as they are known. */
    public List<String> holders() {
        return List.of(holders);
    }

    /** The time limit of the wait. */
    public Duration timeout() {
        return timeout;
    }
}
