package so.lock;

/** The lock is not held: it was lost, or this thread never acquired it. Another owner may have held it meanwhile. */
public final class NotHeldException extends IllegalMonitorStateException implements LockError {
    private static final long serialVersionUID = 1;

    NotHeldException(String text) {
        super(text);
    }

    @Override
    public String code() {
        return "NOTHELD";
    }
}
