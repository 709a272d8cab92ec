package so.lock;

import java.time.Duration;
import java.util.Objects;
import java.util.function.Consumer;

/**
 * How a lock is acquired and kept. Immutable: each method returns a changed copy.
 *
 * @param lease how long a hold lasts without renewal; with a session, the server's {@code lock.default-lease}
 * @param session whether the server renews the lease, for as long as the connection of the hold lives
 * @param fenced whether a hold has a fencing token; not for read locks, multi-key locks and semaphores
 * @param renew whether the client renews the lease, after each third of it; not with a session
 * @param replicas how many replicas must acknowledge a grant; 0: none
 * @param replicasWait the time limit for the acknowledgements
 * @param onLost called once, on a thread of the locks, when a hold is lost; null: no listener
 */
public record LockOptions(
        Duration lease,
        boolean session,
        boolean fenced,
        boolean renew,
        int replicas,
        Duration replicasWait,
        Consumer<Hold> onLost) {

    /** A lease of 30 seconds, renewed. */
    public static final LockOptions DEFAULT =
            new LockOptions(Duration.ofSeconds(30), false, false, true, 0, Duration.ZERO, null);

    public LockOptions {
        if (lease.toMillis() < 1) {
            throw new IllegalArgumentException("the lease must be at least a millisecond");
        }
        if (replicas < 0 || replicas > 0 && replicasWait.toMillis() < 1) {
            throw new IllegalArgumentException("replicas need a positive number and time");
        }
    }

    public LockOptions withLease(Duration time) {
        return new LockOptions(time, session, fenced, renew, replicas, replicasWait, onLost);
    }

    public LockOptions inSession() {
        return new LockOptions(lease, true, fenced, renew, replicas, replicasWait, onLost);
    }

    public LockOptions withToken() {
        return new LockOptions(lease, session, true, renew, replicas, replicasWait, onLost);
    }

    public LockOptions withoutRenewal() {
        return new LockOptions(lease, session, fenced, false, replicas, replicasWait, onLost);
    }

    public LockOptions withReplicas(int count, Duration time) {
        return new LockOptions(lease, session, fenced, renew, count, time, onLost);
    }

    /** The listener uses a connection and a thread for each hold, and is called within milliseconds of a loss. */
    public LockOptions onLost(Consumer<Hold> listener) {
        return new LockOptions(
                lease, session, fenced, renew, replicas, replicasWait, Objects.requireNonNull(listener));
    }
}
