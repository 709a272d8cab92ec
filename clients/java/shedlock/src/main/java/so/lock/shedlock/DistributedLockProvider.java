package so.lock.shedlock;

import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import so.lock.DistributedLock;
import so.lock.Hold;
import so.lock.LockFailure;
import so.lock.LockOptions;
import so.lock.Locks;
import so.lock.NotAcquiredException;

/**
 * ShedLock's locks as locks of lock.so. {@code lockAtMostFor} is the lease, which is not renewed; {@link #inSession}
 * ends a lock with its process instead. {@code lockAtLeastFor} is counted by the clock of the server, also after the
 * process has ended. Any thread may use a provider, and unlock or extend what it has locked.
 */
public final class DistributedLockProvider implements ExtensibleLockProvider {
    /** What precedes the name of a lock in its key if nothing else is set. */
    public static final String DEFAULT_KEY_PREFIX = "shedlock:";

    private static final Logger LOG = LoggerFactory.getLogger(DistributedLockProvider.class);
    /** How long a lost connection is tolerated, because a task that is not run costs more than a short delay. */
    private static final Duration CONNECTING = Duration.ofSeconds(2);
    private static final Duration PAUSE = Duration.ofMillis(50);

    private final Locks locks;
    private final String keyPrefix;
    private final LockOptions options;
    private final boolean session;
    /** What is held, by the names of the locks; weak, so that a lock that the program has forgotten is released. */
    private final Map<String, Reference<Hold>> holds = new ConcurrentHashMap<>();

    private DistributedLockProvider(Locks locks, String keyPrefix, LockOptions options, boolean session) {
        this.locks = Objects.requireNonNull(locks);
        this.keyPrefix = Objects.requireNonNull(keyPrefix);
        this.options = options;
        this.session = session;
    }

    /** A provider whose keys begin with {@link #DEFAULT_KEY_PREFIX}. */
    public DistributedLockProvider(Locks locks) {
        this(locks, DEFAULT_KEY_PREFIX);
    }

    /** A provider whose keys are {@code keyPrefix} and the names of the locks, for applications that share a server. */
    public DistributedLockProvider(Locks locks, String keyPrefix) {
        this(locks, keyPrefix, LockOptions.DEFAULT.fenced().withoutRenewal(), false);
    }

    /**
     * A lock is held as long as its task runs and the process lives, whatever {@code lockAtMostFor} says; soon after the
     * process has died it is free, except for what is left of {@code lockAtLeastFor} after a task that has ended. A task
     * that never ends keeps its lock.
     */
    public DistributedLockProvider inSession() {
        return new DistributedLockProvider(locks, keyPrefix, options.inSession(), true);
    }

    /**
     * The listener is called within milliseconds after a lock was lost while its task runs, for example because
     * {@code lockAtMostFor} has passed. Each lock that is held needs one more connection for this.
     */
    public DistributedLockProvider onLost(Consumer<Hold> listener) {
        return new DistributedLockProvider(locks, keyPrefix, options.onLost(listener), session);
    }

    /**
     * What this provider has locked under this name and not yet unlocked: its fencing token, whether it was lost,
     * commands under its guard. Do not release it.
     */
    public Optional<Hold> currentHold(String name) {
        Reference<Hold> hold = holds.get(name);
        return Optional.ofNullable(hold == null ? null : hold.get());
    }

    /**
     * Acquires the lock if it is free.
     *
     * @return empty if another owner holds it
     * @throws so.lock.LockException if the server refuses
     * @throws RuntimeException the client library's, if the server cannot be reached for 2 seconds
     */
    @Override
    public Optional<SimpleLock> lock(LockConfiguration configuration) {
        LockOptions leased = session ? options : options.withLease(lease(configuration.getLockAtMostFor()));
        DistributedLock lock = locks.lock(keyPrefix + configuration.getName(), leased);
        long start = System.nanoTime();
        while (true) {
            try {
                return acquire(lock).map(hold -> held(configuration, hold));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new LockException("interrupted while acquiring a lock", e);
            } catch (RuntimeException e) {
                if (e instanceof LockFailure || System.nanoTime() - start >= CONNECTING.toNanos()) {
                    throw e;
                }
                LockSupport.parkNanos(PAUSE.toNanos());
            }
        }
    }

    private static Optional<Hold> acquire(DistributedLock lock) throws InterruptedException {
        try {
            return Optional.of(lock.acquireHold(Duration.ZERO));
        } catch (NotAcquiredException e) {
            if (e.getCause() instanceof RuntimeException failure) {
                throw failure;
            }
            LOG.debug("{}", e.getMessage());
            return Optional.empty();
        }
    }

    private SimpleLock held(LockConfiguration configuration, Hold hold) {
        holds.put(configuration.getName(), new WeakReference<>(hold));
        return new HeldLock(this, configuration, hold);
    }

    boolean inSessions() {
        return session;
    }

    void forget(String name, Hold hold) {
        holds.computeIfPresent(name, (key, current) -> current.refersTo(hold) ? null : current);
    }

    /** Leases are counted in milliseconds, and have one at least. */
    static Duration lease(Duration time) {
        return time.toMillis() < 1 ? Duration.ofMillis(1) : time;
    }
}
