package so.lock;

/** The lock is not held: it was lost, or this thread never acquired it. Another owner may have held it meanwhile. */
public final class NotHeldException extends IllegalMonitorStateException implements LockFailure {
    private static final long serialVersionUID = 1;

    /** @param why may be empty */
    NotHeldException(String named, String why) {
        super(named + " is not held" + (why.isEmpty() ? "" : ": " + why));
    }

    @Override
    public String code() {
        return "NOTHELD";
    }
}
