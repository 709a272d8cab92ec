package so.lock;

import java.time.Duration;
import java.util.Objects;
import java.util.function.Consumer;

/**
 * How a lock is taken. Immutable: each method gives a changed copy.
 *
 * @param lease how long a hold lives without renewal; with a session, what {@code lock.default-lease} is
 * @param session whether the server renews, for as long as the connection of the hold lives
 * @param fenced whether a hold has a fencing token; not for reads, several keys and semaphores
 * @param renew whether the client renews, each third of the lease; not with a session
 * @param replicas how many replicas have to acknowledge a grant; 0 = none
 * @param replicasWait how long they have for it
 * @param onLost told once, on a thread of the locks', when a hold is lost; null = nobody
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
            throw new IllegalArgumentException("the lease has to be a millisecond at least");
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

    /** The listener costs a connection and a thread for each hold, and is told within milliseconds. */
    public LockOptions onLost(Consumer<Hold> listener) {
        return new LockOptions(
                lease, session, fenced, renew, replicas, replicasWait, Objects.requireNonNull(listener));
    }
}
