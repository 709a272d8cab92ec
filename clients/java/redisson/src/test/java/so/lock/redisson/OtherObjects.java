package so.lock.redisson;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.redisson.Redisson;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.client.RedisException;
import redis.clients.jedis.CommandArguments;
import so.lock.DistributedLock;
import so.lock.DistributedSemaphore;
import so.lock.Hold;
import so.lock.LockException;
import so.lock.LockOptions;
import so.lock.NotHeldException;

/** Redisson's other objects, together with the locks of this package. */
abstract class OtherObjects extends NonFairLocks {
    /** They subscribe to other channels. */
    @Test
    void itsFairAndReadWriteLocksAreNotNotified() throws Exception {
        assertSleepsUntilTheLeaseExpires(redisson.getFairLock(A), locks.lock(A, BRIEF));
        assertSleepsUntilTheLeaseExpires(
                redisson.getReadWriteLock(A).writeLock(), locks.readWriteLock(A, BRIEF).writeLock());
    }

    @Test
    void theFairLock() throws Exception {
        RLock there = redisson.getFairLock(A);
        DistributedLock here = locks.lock(A);
        there.lock();
        assertFalse(here.tryLock());
        Future<Long> waiter = waiterHere(here);
        there.unlock();
        assertNotNull(waiter.get(60, TimeUnit.SECONDS));
        here.lock();
        Map<String, String> hash = jedis.hgetAll(A);
        assertFalse(there.tryLock());
        assertEquals(hash, jedis.hgetAll(A));
        here.unlock();
        assertTrue(there.tryLock());
        there.unlock();
    }

    @Test
    void itsReadWriteLockExcludesOthers() {
        RReadWriteLock there = redisson.getReadWriteLock(A);
        DistributedLock here = locks.lock(A);
        for (RLock lock : List.of(there.readLock(), there.writeLock())) {
            lock.lock();
            Map<String, String> hash = jedis.hgetAll(A);
            assertFalse(here.tryLock());
            assertFalse(locks.fairLock(A, LockOptions.DEFAULT).tryLock());
            assertFalse(locks.multiLock(List.of(A, B), LockOptions.DEFAULT).tryLock());
            assertEquals(hash, jedis.hgetAll(A));
            lock.unlock();
            assertTrue(here.tryLock());
            here.unlock();
        }
    }

    /** It checks the field `mode`, which an exclusive lock does not have, Redisson's own RLock included. */
    @Test
    void itsReadWriteLockDoesNotSeeAnExclusiveLock() {
        for (Runnable takes : List.<Runnable>of(locks.lock(A)::lock, redisson.getLock(A)::lock)) {
            takes.run();
            assertTrue(redisson.getReadWriteLock(A).writeLock().tryLock());
            assertEquals("write", jedis.hget(A, "mode"));
            redisson.getReadWriteLock(A).writeLock().unlock(); // otherwise scripts of its watchdog would be counted later
            jedis.del(A);
        }
        assertThrows(NotHeldException.class, locks.lock(A)::unlock);
        assertThrows(IllegalMonitorStateException.class, redisson.getLock(A)::unlock);
    }

    @Test
    void theMultiLock() {
        RLock there = redisson.getMultiLock(redisson.getLock(A), redisson.getLock(B));
        DistributedLock here = locks.multiLock(List.of(A, B), LockOptions.DEFAULT);
        there.lock();
        assertFalse(here.tryLock());
        assertFalse(locks.lock(B).tryLock());
        there.unlock();
        assertTrue(here.tryLock());
        List<Map<String, String>> hashes = List.of(jedis.hgetAll(A), jedis.hgetAll(B));
        assertFalse(there.tryLock());
        assertEquals(hashes, List.of(jedis.hgetAll(A), jedis.hgetAll(B)));
        here.unlock();
        locks.lock(B).lock();
        assertFalse(there.tryLock(), "one of them is held");
        assertFalse(jedis.exists(A), "and the other was released");
        locks.lock(B).unlock();
        assertTrue(there.tryLock());
        there.unlock();
    }

    @Test
    void theSpinLock() {
        RLock there = redisson.getSpinLock(A);
        there.lock();
        assertFalse(locks.lock(A).tryLock());
        there.unlock();
        locks.lock(A).lock();
        assertFalse(there.tryLock());
        locks.lock(A).unlock();
    }

    /** The same lock; but each side has tokens of its own. */
    @Test
    void theFencedLock() throws Exception {
        RFencedLock there = redisson.getFencedLock(A);
        assertEquals(1, there.lockAndGetToken());
        assertFalse(locks.lock(A).tryLock());
        there.unlock();
        try (Hold hold = locks.lock(A, LockOptions.DEFAULT.fenced()).acquireHold()) {
            assertTrue(hold.token().getAsLong() > 1);
            assertFalse(there.tryLock());
        }
        assertEquals(2, there.lockAndGetToken());
        there.unlock();
        assertEquals(-1, jedis.ttl("redisson_lock_token:" + A), "and Redisson's has no TTL");
        assertTrue(jedis.ttl("lock:token:" + A) > 0);
    }

    @Test
    void theSemaphores() {
        DistributedSemaphore here = locks.semaphore(A, 1, LockOptions.DEFAULT);
        RSemaphore there = redisson.getSemaphore(A);
        RPermitExpirableSemaphore expirable = redisson.getPermitExpirableSemaphore(A);
        for (BooleanSupplier sets : List.<BooleanSupplier>of(() -> there.trySetPermits(1), () -> expirable.trySetPermits(1))) {
            assertTrue(sets.getAsBoolean());
            assertEquals("WRONGTYPE", assertThrows(LockException.class, here::tryAcquire).code());
            jedis.del(A);
        }
        assertTrue(here.tryAcquire());
        assertThrows(RedisException.class, there::tryAcquire);
        assertThrows(RedisException.class, expirable::tryAcquire);
        here.release();
    }

    /** The key is the same. Here a change of the key ends the wait, in Redisson a message does. */
    @Test
    void theLatch() throws Exception {
        String name = "latch"; // a cluster refuses a name with a hash tag, because Redisson's channel is in another slot
        RCountDownLatch there = redisson.getCountDownLatch(name);
        there.trySetCount(2);
        Future<Object> waits = threads.submit(() -> jedis.executeCommand(
                new CommandArguments(word("LATCH.WAIT")).key(name).add("BLOCK").add(0).blocking()));
        there.countDown();
        assertEquals(1, there.getCount());
        assertFalse(waits.isDone());
        there.countDown();
        assertEquals(1L, waits.get(60, TimeUnit.SECONDS));
        there.trySetCount(2);
        assertEquals(1L, jedis.executeCommand(new CommandArguments(word("LATCH.DOWN")).key(name)));
        long before = calls("get");
        Future<?> awaits = threads.submit(() -> {
            there.await();
            return null;
        });
        while (calls("get") < before + 2) { // it reads the key, subscribes, and reads the key again
            Thread.onSpinWait();
        }
        assertEquals(0L, jedis.executeCommand(new CommandArguments(word("LATCH.DOWN")).key(name)));
        assertFalse(jedis.exists(name));
        assertFalse(awaits.isDone(), "it was not notified");
        there.trySetCount(1);
        there.countDown();
        awaits.get(60, TimeUnit.SECONDS);
    }

    /** The last reader that Redisson knows of deletes the hash, with all readers that it does not know of. */
    @Test
    void readersDoNotMix() throws Exception {
        Hold hold = locks.readWriteLock(A, LockOptions.DEFAULT).readLock().acquireHold();
        RLock there = redisson.getReadWriteLock(A).readLock();
        assertTrue(there.tryLock());
        there.unlock();
        assertFalse(jedis.exists(A));
        assertThrows(NotHeldException.class, hold::release);
    }
}
