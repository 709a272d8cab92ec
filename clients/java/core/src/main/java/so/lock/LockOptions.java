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
        checkTime("lease", lease);
        if (replicas < 0) {
            throw new IllegalArgumentException("replicas must be at least 1, not " + replicas);
        }
        if (replicas > 0) {
            checkTime("replicas: the time", replicasWait);
        }
    }

    /** The server counts whole milliseconds, of which there must be one. */
    static void checkTime(String name, Duration time) {
        if (time.toMillis() < 1) {
            String text = Texts.seconds(time.toMillis());
            throw new IllegalArgumentException(name + " must be greater than 0, not " + text);
        }
    }

    /** The same with this lease. */
    public LockOptions withLease(Duration time) {
        return new LockOptions(time, session, fenced, renew, replicas, replicasWait, onLost);
    }

    /** The server renews the lease, and frees the lock soon after the hold's connection was lost. */
    public LockOptions inSession() {
        return new LockOptions(lease, true, fenced, renew, replicas, replicasWait, onLost);
    }

    /** Each hold has a fencing token. */
    public LockOptions withToken() {
        return new LockOptions(lease, session, true, renew, replicas, replicasWait, onLost);
    }

    /** The lease is not renewed. */
    public LockOptions withoutRenewal() {
        return new LockOptions(lease, session, fenced, false, replicas, replicasWait, onLost);
    }

    /** This number of replicas, one at least, must acknowledge a grant within this time, which is added to a wait. */
    public LockOptions withReplicas(int count, Duration time) {
        if (count < 1) {
            throw new IllegalArgumentException("replicas must be at least 1, not " + count);
        }
        return new LockOptions(lease, session, fenced, renew, count, time, onLost);
    }

    /** The listener uses a connection and a thread for each hold, and is called within milliseconds of a loss. */
    public LockOptions onLost(Consumer<Hold> listener) {
        return new LockOptions(
                lease, session, fenced, renew, replicas, replicasWait, Objects.requireNonNull(listener));
    }
}
