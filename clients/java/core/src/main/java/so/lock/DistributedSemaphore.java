package so.lock;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;

/**
 * A semaphore like {@link java.util.concurrent.Semaphore}: a permit may be acquired and released by different threads.
 * But this object can release only permits that it has acquired, and a permit that is not released ends with its lease.
 */
public final class DistributedSemaphore {
    private static final long NO_LIMIT = -1;

    /** Permits of one hold that are not being released. */
    private record Permits(Hold hold, int count) {}

    private final Locks locks;
    private final String key;
    private final int limit;
    private final LockOptions options;
    private final Deque<Permits> acquired = new ArrayDeque<>();

    DistributedSemaphore(Locks locks, String key, int limit, LockOptions options) {
        this.locks = locks;
        this.key = Objects.requireNonNull(key, "key");
        this.limit = limit;
        this.options = options;
        target(1); // checks the options
    }

    /** Acquires one permit, without a limit of the wait. */
    public void acquire() throws InterruptedException {
        acquire(1);
    }

    /** @param permits 1 to the limit: all or none of them */
    public void acquire(int permits) throws InterruptedException {
        take(permits, NO_LIMIT, true);
    }

    /** Acquires one permit if one is available now. */
    public boolean tryAcquire() {
        return tryAcquire(1);
    }

    /** Unlike the JDK's, it never passes clients that wait already. */
    public boolean tryAcquire(int permits) {
        try {
            return take(permits, 0, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Acquires one permit if one is available within this time. */
    public boolean tryAcquire(long time, TimeUnit unit) throws InterruptedException {
        return tryAcquire(1, time, unit);
    }

    /** Acquires permits if they are available within this time: all or none of them. */
    public boolean tryAcquire(int permits, long time, TimeUnit unit) throws InterruptedException {
        return take(permits, Math.max(0, unit.toMillis(time)), true);
    }

    /** Releases one permit. */
    public void release() {
        release(1);
    }

    /**
     * Releases permits that this object has acquired, the oldest first.
     *
     * @throws NotHeldException if it does not have that many, and then releases none; or if some of them were lost
     */
    public void release(int permits) {
        if (permits < 1) {
            throw new IllegalArgumentException("permits must be at least 1, not " + permits);
        }
        NotHeldException lost = null;
        Deque<Permits> parts = remove(permits);
        try {
            for (; !parts.isEmpty(); parts.removeFirst()) {
                try {
                    parts.getFirst().hold.release(parts.getFirst().count);
                } catch (NotHeldException e) {
                    lost = e;
                }
            }
        } finally {
            synchronized (acquired) {
                parts.descendingIterator().forEachRemaining(acquired::addFirst); // after another error
            }
        }
        if (lost != null) {
            throw lost;
        }
    }

    /**
     * Permits for try-with-resources, which {@link #release} does not release.
     *
     * @throws NotAcquiredException if they could not be acquired in time
     */
    public Hold acquireHold(int permits, Duration wait) throws InterruptedException, NotAcquiredException {
        return target(permits).acquire(Attempt.of(wait));
    }

    /** {@link #acquireHold(int, Duration)} without a limit. */
    public Hold acquireHold(int permits) throws InterruptedException {
        return target(permits).tryAcquire(Attempt.silent(NO_LIMIT, true));
    }

    /**
     * Whether any owner holds one of its permits. It is answered within 2 seconds.
     *
     * @throws LockException if the server refuses
     */
    public boolean isLocked() {
        return target(1).isLocked();
    }

    /** Who holds it and who waits for it. It is answered within 2 seconds. */
    public LockInfo info() {
        return target(1).info();
    }

    /**
     * Takes it away from its owners, for operators: they are only notified of the loss, and may still be working. It is
     * answered within 2 seconds, and not repeated if the reply is lost.
     *
     * @return whether it was held
     */
    public boolean forceUnlock() {
        return target(1).force();
    }

    /** These permits as a lock, whose {@code lock()} acquires all of them: also for {@link Locks#multiLock}. */
    public DistributedLock asLock(int permits) {
        return new DistributedLock(locks, target(permits), "semaphore\0" + key + "\0" + limit + "\0" + permits, 0);
    }

    private Single target(int permits) {
        return new Single(locks, new Request(Request.Kind.SEMAPHORE, List.of(key), List.of(), limit, permits, options));
    }

    private boolean take(int permits, long waitMs, boolean interruptible) throws InterruptedException {
        Hold hold = target(permits).tryAcquire(Attempt.silent(waitMs, interruptible));
        if (hold == null) {
            return false;
        }
        synchronized (acquired) {
            acquired.addLast(new Permits(hold, permits));
        }
        return true;
    }

    /** Decides which permits are released; nothing else releases them. */
    private Deque<Permits> remove(int count) {
        Deque<Permits> removed = new ArrayDeque<>();
        synchronized (acquired) {
            if (acquired.stream().mapToLong(Permits::count).sum() < count) {
                throw new NotHeldException(target(1).named(), "not that many permits were acquired");
            }
            for (int left = count; left > 0; left -= removed.getLast().count) {
                Permits first = acquired.removeFirst();
                removed.addLast(new Permits(first.hold, Math.min(left, first.count)));
                if (first.count > left) {
                    acquired.addFirst(new Permits(first.hold, first.count - left));
                }
            }
        }
        return removed;
    }

    @Override
    public String toString() {
        return "DistributedSemaphore[" + key + " " + limit + "]";
    }
}
