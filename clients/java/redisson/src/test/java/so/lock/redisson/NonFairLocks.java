package so.lock.redisson;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import so.lock.DistributedLock;
import so.lock.Hold;
import so.lock.LockOptions;

/** Redisson's RLock, and the lock of this package. */
abstract class NonFairLocks extends WithRedisson {
    private static final int ROUNDS = 30;

    @Test
    void eachExcludesTheOther() {
        RLock there = redisson.getLock(A);
        DistributedLock here = locks.lock(A);
        there.lock();
        there.lock();
        Map<String, String> hash = jedis.hgetAll(A);
        assertFalse(here.tryLock());
        there.unlock();
        assertFalse(here.tryLock());
        assertEquals(hash.keySet(), jedis.hgetAll(A).keySet(), "and the hash is as Redisson wrote it");
        there.unlock();
        assertTrue(here.tryLock());
        hash = jedis.hgetAll(A);
        assertFalse(there.tryLock());
        assertFalse(there.isHeldByCurrentThread());
        assertThrows(IllegalMonitorStateException.class, there::unlock);
        assertEquals(hash, jedis.hgetAll(A));
        here.unlock();
        assertTrue(there.tryLock());
        there.unlock();
    }

    @Test
    void redissonsUnlockHandsOffToAWaiterHere() throws Exception {
        RLock there = redisson.getLock(A);
        List<Double> times = new ArrayList<>();
        for (int i = 0; i < ROUNDS; i++) {
            there.lock(60, TimeUnit.SECONDS);
            Future<Long> waiter = waiterHere(locks.lock(A));
            long start = System.nanoTime();
            there.unlock();
            times.add(ms(start, waiter));
        }
        report("RLock.unlock to LOCK.ACQUIRE's reply", times);
    }

    @Test
    void aReleaseHereNotifiesRedissonsWaiter() throws Exception {
        DistributedLock here = locks.lock(A, LockOptions.DEFAULT.withLease(Duration.ofMinutes(1)));
        List<Double> times = new ArrayList<>();
        for (int i = 0; i < ROUNDS; i++) {
            here.lock();
            Future<Long> waiter = waiterOfRedisson(redisson.getLock(A), A);
            long start = System.nanoTime();
            here.unlock();
            times.add(ms(start, waiter));
            while (listening(A) > 0) {
                Thread.onSpinWait();
            }
        }
        report("LOCK.RELEASE to the end of RLock.lock", times);
    }

    @Test
    void itsWatchdogRenewsALockWithAWaiterHere() throws Exception {
        RLock there = redisson.getLock(A);
        there.lock();
        Future<Long> waiter = waiterHere(locks.lock(A));
        awaitRenewals(3);
        assertFalse(waiter.isDone());
        there.unlock();
        assertNotNull(waiter.get(60, TimeUnit.SECONDS));
    }

    /** Waits until the TTL has increased this many times. */
    private void awaitRenewals(int count) {
        long last = jedis.pttl(A);
        for (int seen = 0; seen < count;) {
            long now = jedis.pttl(A);
            assertTrue(now > 0, "the lease has expired");
            seen += now > last ? 1 : 0;
            last = now;
        }
    }

    /** It counts its own holds without a lease, and renews as long as one of them is left. */
    @Test
    void afterAPartialUnlockItsWatchdogContinues() {
        RLock there = redisson.getLock(A);
        there.lock();
        there.lock();
        there.unlock();
        awaitRenewals(3);
        there.unlock();
    }

    @Test
    void afterAPartialUnlockItsWatchdogForgetsAHoldWithALease() throws Exception {
        RLock there = redisson.getLock(A);
        there.lock();
        there.lock(2, TimeUnit.SECONDS);
        there.unlock();
        assertEquals(1, there.getHoldCount());
        assertEndsWithItsLease(there);
    }

    @Test
    void afterAPartialUnlockItsWatchdogForgetsAHoldOfOurs() throws Exception {
        RLock there = redisson.getLock(A);
        there.lock();
        String owner = jedis.hkeys(A).iterator().next();
        assertEquals(2L, command("LOCK.ACQUIRE", owner, "PX", WATCHDOG_MS));
        there.unlock();
        assertEquals(1, there.getHoldCount());
        assertEndsWithItsLease(there);
    }

    private void assertEndsWithItsLease(RLock there) throws Exception {
        Future<Long> waiter = threads.submit(() -> {
            locks.lock(A).lock();
            locks.lock(A).unlock();
            return System.nanoTime();
        });
        assertNotNull(waiter.get(60, TimeUnit.SECONDS), "it was granted");
        assertThrows(IllegalMonitorStateException.class, there::unlock);
    }

    /**
     * Redisson's waiter has waited longer and is notified, but the release has already handed the lock to the waiter
     * here.
     */
    @Test
    void aWaiterHereIsGrantedTheLockFirst() throws Exception {
        RLock holder = redisson.getLock(A);
        holder.lock(60, TimeUnit.SECONDS);
        Future<Long> theirs = waiterOfRedisson(redisson.getLock(A), A);
        Future<Long> ours = waiterHere(locks.lock(A));
        holder.unlock();
        assertTrue(ours.get(60, TimeUnit.SECONDS) - theirs.get(60, TimeUnit.SECONDS) < 0);
    }

    @Test
    void withoutTheMessageItSleepsUntilTheLeaseExpires() throws Exception {
        interop("no");
        try {
            assertSleepsUntilTheLeaseExpires(redisson.getLock(A), locks.lock(A, BRIEF));
        } finally {
            interop("yes");
        }
    }

    @Test
    void forceUnlockByRedissonIsALossHere() throws Exception {
        BlockingQueue<Hold> lost = new LinkedBlockingQueue<>();
        Hold hold = locks.lock(A, LockOptions.DEFAULT.onLost(lost::add)).acquireHold();
        Future<Long> waiter = waiterHere(locks.lock(A));
        assertTrue(redisson.getLock(A).forceUnlock());
        assertEquals(hold, lost.poll(60, TimeUnit.SECONDS));
        assertNotNull(waiter.get(60, TimeUnit.SECONDS));
        assertThrows(IllegalMonitorStateException.class, hold::release);
    }

    @Test
    void forceHereFreesRedissonsLock() throws Exception {
        RLock there = redisson.getLock(A);
        there.lock(60, TimeUnit.SECONDS);
        Future<Long> waiter = waiterOfRedisson(redisson.getLock(A), A);
        command("LOCK.FORCE");
        assertNotNull(waiter.get(60, TimeUnit.SECONDS));
        assertThrows(IllegalMonitorStateException.class, there::unlock);
    }
}
