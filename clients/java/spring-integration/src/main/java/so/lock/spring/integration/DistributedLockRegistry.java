package so.lock.spring.integration;

import java.time.Duration;
import java.util.Objects;
import java.util.function.BiFunction;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.RenewableLockRegistry;
import org.springframework.util.Assert;
import so.lock.LockOptions;
import so.lock.Locks;

/**
 * A registry whose locks are locks of lock.so. They are held by threads, which may lock them again; a thread that waits
 * sends nothing until the server grants it the lock. The leases are renewed while the thread that holds the lock is
 * alive, unless the options say {@link LockOptions#withoutRenewal}, so no task scheduler is needed for it. Nothing is
 * kept for a lock that is not held.
 */
public final class DistributedLockRegistry implements RenewableLockRegistry<DistributedLock> {
    private final String registryKey;
    private final LockOptions options;
    private final BiFunction<String, LockOptions, so.lock.DistributedLock> kind;

    /**
     * A registry of locks of any kind, fair ones for example:
     * {@code new DistributedLockRegistry(locks::fairLock, "orders", LockOptions.DEFAULT.inSession())}.
     *
     * @param kind creates a lock
     * @param registryKey the key of a lock is this, a colon, and the lock key
     * @param options the lease of locks that are acquired without a time to live, and other options
     */
    public DistributedLockRegistry(
            BiFunction<String, LockOptions, so.lock.DistributedLock> kind, String registryKey, LockOptions options) {
        this.kind = Objects.requireNonNull(kind);
        this.registryKey = Objects.requireNonNull(registryKey);
        this.options = Objects.requireNonNull(options);
    }

    /** A registry of locks, {@link Locks#lock(String, LockOptions)}. */
    public DistributedLockRegistry(Locks locks, String registryKey, LockOptions options) {
        this(locks::lock, registryKey, options);
    }

    /** The same with leases of 30 seconds, {@link LockOptions#DEFAULT}. */
    public DistributedLockRegistry(Locks locks, String registryKey) {
        this(locks, registryKey, LockOptions.DEFAULT);
    }

    /** @param lockKey a String */
    @Override
    public RegistryLock obtain(Object lockKey) {
        Assert.isInstanceOf(String.class, lockKey);
        String key = registryKey + ":" + lockKey;
        return new RegistryLock(key, kind.apply(key, options), ttl -> kind.apply(key, options.withLease(ttl)));
    }

    /** @throws IllegalStateException if the current thread does not hold the lock, or has lost it */
    @Override
    public void renewLock(Object lockKey) {
        obtain(lockKey).renew(null);
    }

    /**
     * From now on the lock has this lease.
     *
     * @param ttl not for a registry of sessions
     * @throws IllegalStateException if the current thread does not hold the lock, or has lost it
     */
    @Override
    public void renewLock(Object lockKey, Duration ttl) {
        obtain(lockKey).renew(Objects.requireNonNull(ttl));
    }

    @Override
    public String toString() {
        return "DistributedLockRegistry{registryKey=" + registryKey + "}";
    }
}
