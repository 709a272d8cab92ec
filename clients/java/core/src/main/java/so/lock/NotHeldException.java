package so.lock;

import java.util.List;

/** The lock is not held: it was lost, or this thread never acquired it. Another owner may have held it meanwhile. */
public final class NotHeldException extends IllegalMonitorStateException implements LockFailure {
    private static final long serialVersionUID = 1;
    private final String[] keys;

    /** @param why may be empty */
    NotHeldException(LockName named, String why) {
        super(named + " is not held" + (why.isEmpty() ? "" : ": " + why));
        keys = named.keys().toArray(String[]::new);
    }

    @Override
    public String code() {
        return "NOTHELD";
    }

    /** The keys of the lock. */
    public List<String> keys() {
        return List.of(keys);
    }
}
