package so.lock.spring.integration;

import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.integration.support.locks.DistributedLock;
import so.lock.Hold;
import so.lock.NotHeldException;

/**
 * A lock of a {@link DistributedLockRegistry}. If it cannot be acquired because of an error of the server or the
 * connection, a {@link CannotAcquireLockException} is thrown, whose cause is the exception of lock.so or the client
 * library. All objects for the same key are one lock, whatever time to live they are acquired with; a thread that enters
 * again does not change the lease.
 */
public final class RegistryLock implements DistributedLock {
    /** An acquisition. */
    private interface Attempt {
        boolean run() throws InterruptedException;
    }

    private final String key;
    private final so.lock.DistributedLock lock;
    private final Function<Duration, so.lock.DistributedLock> leased;

    RegistryLock(String key, so.lock.DistributedLock lock, Function<Duration, so.lock.DistributedLock> leased) {
        this.key = key;
        this.lock = lock;
        this.leased = leased;
    }

    @Override
    public void lock() {
        uninterruptibly(lock);
    }

    /** With this lease, which is renewed, unless the options of the registry exclude it. */
    @Override
    public void lock(Duration ttl) {
        uninterruptibly(leased.apply(ttl));
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        acquire(() -> {
            lock.lockInterruptibly();
            return true;
        });
    }

    @Override
    public boolean tryLock() {
        try {
            return acquire(lock::tryLock);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return acquire(() -> lock.tryLock(time, unit));
    }

    /** With this lease, which is renewed, unless the options of the registry exclude it. */
    @Override
    public boolean tryLock(Duration waitTime, Duration ttl) throws InterruptedException {
        so.lock.DistributedLock chosen = leased.apply(ttl);
        return acquire(() -> chosen.tryLock(waitTime.toMillis(), TimeUnit.MILLISECONDS));
    }

    /**
     * Releases what the current thread has acquired last.
     *
     * @throws ConcurrentModificationException if the lock was lost before, so that another owner may have held it
     * @throws IllegalMonitorStateException if the current thread has not locked it
     */
    @Override
    public void unlock() {
        if (lock.getHoldCount() == 0) {
            throw new IllegalMonitorStateException("the current thread has not locked " + key);
        }
        try {
            lock.unlock();
        } catch (NotHeldException e) {
            throw new ConcurrentModificationException(e.getMessage(), e);
        }
    }

    /** Not supported. */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("Conditions are not supported");
    }

    /**
     * What the current thread holds: its fencing token, whether it was lost, commands under its guard. Do not release
     * it.
     *
     * @throws IllegalMonitorStateException if it holds nothing
     */
    public Hold currentHold() {
        return lock.currentHold();
    }

    /** @param ttl null: the lease that it has */
    void renew(@Nullable Duration ttl) {
        try {
            if (ttl == null) {
                lock.currentHold().renew();
            } else {
                lock.currentHold().renew(ttl);
            }
        } catch (NotHeldException e) {
            throw new IllegalStateException("Could not renew " + key, e);
        }
    }

    private void uninterruptibly(so.lock.DistributedLock chosen) {
        try {
            acquire(() -> {
                chosen.lock();
                return true;
            });
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private boolean acquire(Attempt attempt) throws InterruptedException {
        try {
            return attempt.run();
        } catch (RuntimeException e) {
            throw new CannotAcquireLockException("Failed to lock " + key, e);
        }
    }

    @Override
    public String toString() {
        return "RegistryLock[" + key + "]";
    }
}
