package so.lock;

/** The lock is not held: it was lost before, or never had by this thread. Somebody else may have worked under it. */
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
