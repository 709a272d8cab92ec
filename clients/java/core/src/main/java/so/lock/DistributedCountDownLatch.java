package so.lock;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/**
 * A latch like {@link java.util.concurrent.CountDownLatch}, which is on the server, and which can be set again. It is
 * open if it was never set: set it before the threads that wait for it begin. Short commands are answered within 2
 * seconds, or fail with the library's exception.
 */
public final class DistributedCountDownLatch {
    private final Locks locks;
    private final String key;

    DistributedCountDownLatch(Locks locks, String key) {
        this.locks = locks;
        this.key = Objects.requireNonNull(key, "key");
    }

    /**
     * Sets the count, whatever it was; 0 opens the latch. It does not expire. This is not sent again after a lost
     * connection, because it may have been counted down since.
     */
    public void set(long count) {
        set(count, List.of());
    }

    /** {@link #set(long)} with a time after which the latch opens by itself: those who count down may have died. */
    public void set(long count, Duration lease) {
        set(count, Request.px(LockOptions.checkTime("lease", lease)));
    }

    private void set(long count, List<String> lease) {
        if (count < 0) {
            throw new IllegalArgumentException("count must not be negative, not " + count);
        }
        query().sendOnce(Request.words(List.of(List.of("LATCH.SET", key, Long.toString(count)), lease)));
    }

    /** {@link #countDown(long)} by 1. */
    public long countDown() {
        return countDown(1);
    }

    /**
     * Counts down. This is not sent again after a lost connection, because it may have been executed.
     *
     * @param by 1 at least; more than is left counts down to 0
     * @return what is left; 0: the latch is open
     */
    public long countDown(long by) {
        if (by < 1) {
            throw new IllegalArgumentException("by must be at least 1, not " + by);
        }
        return (Long) query().sendOnce(List.of("LATCH.DOWN", key, Long.toString(by)));
    }

    /** What is left; 0 if the latch is open. */
    public long getCount() {
        Object count = query().send(List.of("GET", key));
        try {
            return count == null ? 0 : Math.max(0, Long.parseLong((String) count));
        } catch (NumberFormatException e) {
            throw new LockException("ERR", named(), "ERR value is not an integer or out of range");
        }
    }

    /** Waits without a limit until the latch is open. The wait survives outages. */
    public void await() throws InterruptedException {
        await(-1L);
    }

    /** {@link #await(Duration)} as in the JDK; with 0 or less it does not wait. */
    public boolean await(long time, TimeUnit unit) throws InterruptedException {
        return await(Math.max(0, unit.toMillis(time)));
    }

    /**
     * Waits until the latch is open. The wait survives outages.
     *
     * @param wait how long to wait; 0: do not wait
     * @return whether it is open; false if the time has passed
     * @throws InterruptedException if interrupted
     * @throws LockException if the server refuses
     * @throws RuntimeException the library's, if there was never a connection, or no reply without a wait
     */
    public boolean await(Duration wait) throws InterruptedException {
        return await(LockOptions.checkWait(wait));
    }

    private boolean await(long waitMs) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        long until = Call.until(waitMs);
        Call call = new Call(locks.connections, key, waitMs == 0, named(), null, List.of());
        try {
            Object reply;
            do {
                reply = call.send(() -> Call.blocking(this::words, until, locks.maxBlockMs, 0), until, call::disconnect);
            } while (reply == null && System.nanoTime() - until < 0);
            return reply != null;
        } catch (LinkException e) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            boolean inTime = System.nanoTime() - until < 0;
            if (inTime || waitMs == 0 || locks.closed || !locks.connections.connected) {
                throw locks.failure(named(), e);
            }
            return false;
        } catch (ServerException e) {
            if (!e.isTransient() || waitMs == 0) {
                throw LockException.of(named(), e, call.address());
            }
            return false;
        } finally {
            call.giveBack();
        }
    }

    private List<String> words(long blockMs) {
        return blockMs < 0 ? List.of("LATCH.WAIT", key) : List.of("LATCH.WAIT", key, "BLOCK", Long.toString(blockMs));
    }

    private Query query() {
        return new Query(locks, named(), key);
    }

    private LockName named() {
        return LockName.of("latch", List.of(key));
    }

    @Override
    public String toString() {
        return "DistributedCountDownLatch[" + key + "]";
    }
}
