package so.lock;

import java.time.Duration;
import java.util.Objects;
import java.util.function.Consumer;

/** How a lock is acquired and kept. Immutable: each method returns a changed copy. */
public final class LockOptions {
    /** A lease of 30 seconds, renewed. */
    public static final LockOptions DEFAULT = new LockOptions();

    long leaseMs = 30_000;
    boolean session;
    boolean fenced;
    boolean renew = true;
    int replicas; // 0: none
    long replicasMs;
    Consumer<Hold> onLost; // null: no listener

    private LockOptions() {}

    /** Checks a time, and returns it in ms. The server counts whole milliseconds, of which there must be one. */
    static long checkTime(String name, Duration time) {
        long ms = Texts.ms(time);
        if (ms == 0 && time.compareTo(Duration.ZERO) > 0) {
            throw new IllegalArgumentException(name + " must be at least 1 ms, not " + Texts.milliseconds(time));
        } else if (ms < 1) {
            throw new IllegalArgumentException(name + " must be greater than 0, not " + Texts.seconds(ms));
        }
        return ms;
    }

    /** Checks a time to wait, and returns it in ms. */
    static long checkWait(Duration wait) {
        if (wait.isNegative()) {
            throw new IllegalArgumentException("wait must not be negative, not " + Texts.seconds(Texts.ms(wait)));
        }
        return Texts.ms(wait);
    }

    LockOptions with(Consumer<LockOptions> change) {
        LockOptions copy = new LockOptions();
        copy.leaseMs = leaseMs;
        copy.session = session;
        copy.fenced = fenced;
        copy.renew = renew;
        copy.replicas = replicas;
        copy.replicasMs = replicasMs;
        copy.onLost = onLost;
        change.accept(copy);
        return copy;
    }

    /** How long a hold lasts without renewal. With a session, this is how long the client believes it without one. */
    public LockOptions withLease(Duration time) {
        long ms = checkTime("lease", time);
        return with(copy -> copy.leaseMs = ms);
    }

    /**
     * The server renews the lease, and frees the lock 1 second ({@code lock.session-grace}) after the hold's connection was
     * lost, if no new one was bound to it.
     */
    public LockOptions inSession() {
        return with(copy -> copy.session = true);
    }

    /** Each hold has a fencing token; not for read locks, multi-key locks and semaphores. */
    public LockOptions fenced() {
        return with(copy -> copy.fenced = true);
    }

    /** The client does not renew the lease, except once after a long wait, when the start of the lease is not known. */
    public LockOptions withoutRenewal() {
        return with(copy -> copy.renew = false);
    }

    /** This number of replicas, one at least, must acknowledge a grant within this time, which is added to a wait. */
    public LockOptions withReplicas(int count, Duration time) {
        if (count < 1) {
            throw new IllegalArgumentException("replicas must be at least 1, not " + count);
        }
        long ms = checkTime("replicas: the time", time);
        return with(copy -> {
            copy.replicas = count;
            copy.replicasMs = ms;
        });
    }

    /**
     * The listener is called once, on a thread of the locks, within milliseconds of a loss. It uses a connection and a
     * thread for each hold and key.
     */
    public LockOptions onLost(Consumer<Hold> listener) {
        Objects.requireNonNull(listener);
        return with(copy -> copy.onLost = listener);
    }

    @Override
    public String toString() {
        return "LockOptions[lease " + Texts.seconds(leaseMs) + " s" + (renew ? "" : ", without renewal")
                + (session ? ", session" : "") + (fenced ? ", fenced" : "")
                + (replicas > 0 ? ", " + replicas + " replicas in " + Texts.seconds(replicasMs) + " s" : "") + "]";
    }
}
