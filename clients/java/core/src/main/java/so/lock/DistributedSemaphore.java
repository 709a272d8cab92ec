package so.lock;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A semaphore like {@link java.util.concurrent.Semaphore}: a permit may be acquired and released by different threads.
 * But this object can release only permits that it has acquired, and a permit that is not released ends with its lease.
 */
public final class DistributedSemaphore {
    private static final long FOR_EVER = -1;

    private final Locks locks;
    private final String key;
    private final int limit;
    private final LockOptions options;
    private final Deque<Hold> holds = new ArrayDeque<>();

    DistributedSemaphore(Locks locks, String key, int limit, LockOptions options) {
        this.locks = locks;
        this.key = key;
        this.limit = limit;
        this.options = options;
        request(1);
    }

    /** Acquires one permit, without a limit of the wait. */
    public void acquire() throws InterruptedException {
        acquire(1);
    }

    /** @param permits 1 to the limit: all or none of them */
    public void acquire(int permits) throws InterruptedException {
        take(permits, FOR_EVER, true);
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
     * @throws NotHeldException if it does not have that many, or some of them were lost
     */
    public void release(int permits) {
        int left = permits;
        NotHeldException lost = null;
        while (left > 0) {
            Hold hold = first();
            synchronized (hold) {
                int count = Math.min(left, hold.permits());
                left -= count;
                try {
                    if (count > 0) { // 0: another thread was faster
                        hold.release(count);
                    }
                } catch (NotHeldException e) {
                    lost = e;
                } finally {
                    done(hold);
                }
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
    public Hold hold(int permits, Duration wait) throws InterruptedException, NotAcquiredException {
        return locks.acquire(request(permits), wait);
    }

    /** {@link #hold(int, Duration)} without a limit. */
    public Hold hold(int permits) throws InterruptedException {
        return locks.tryAcquire(request(permits), FOR_EVER, true, null);
    }

    private Request request(int permits) {
        return new Request(Request.Kind.SEMAPHORE, List.of(key), limit, permits, options);
    }

    private boolean take(int permits, long waitMs, boolean interruptible) throws InterruptedException {
        Hold hold = locks.tryAcquire(request(permits), waitMs, interruptible, null);
        if (hold == null) {
            return false;
        }
        synchronized (holds) {
            holds.addLast(hold);
        }
        return true;
    }

    private Hold first() {
        synchronized (holds) {
            Hold hold = holds.peekFirst();
            if (hold == null) {
                throw new NotHeldException(request(1), "not that many permits were acquired");
            }
            return hold;
        }
    }

    private void done(Hold hold) {
        if (hold.permits() == 0) {
            synchronized (holds) {
                holds.remove(hold);
            }
        }
    }
}
