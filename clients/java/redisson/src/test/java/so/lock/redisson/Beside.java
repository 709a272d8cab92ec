package so.lock.redisson;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.Timeout;
import org.redisson.Redisson;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.config.Config;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.util.SafeEncoder;
import so.lock.Hold;
import so.lock.LockException;
import so.lock.LockOptions;
import so.lock.LockSoLock;
import so.lock.LockSoSemaphore;
import so.lock.Locks;
import so.lock.NotHeldException;
import so.lock.ServerProcess;

/** The real Redisson and the locks here on one name; on one server and in a cluster. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@Timeout(120)
abstract class Beside {
    /** So short that its watchdog has to renew while a test looks. */
    private static final long WATCHDOG_MS = 900;

    private static final int ROUNDS = 30;
    private static final LockOptions BRIEF =
            LockOptions.DEFAULT.withLease(Duration.ofSeconds(1)).withoutRenewal();
    private static final String A = "{tag}a";
    private static final String B = "{tag}b";

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final List<Jedis> listeners = new ArrayList<>();
    private List<ServerProcess> nodes;
    private RedissonClient redisson;
    private UnifiedJedis jedis;
    private Locks locks;

    /** Starts what there is to start, with lock.redisson-interop. */
    abstract List<ServerProcess> servers();

    abstract Config redisson(List<Integer> ports);

    abstract UnifiedJedis jedis(List<Integer> ports);

    abstract Locks locks(List<Integer> ports, UnifiedJedis jedis);

    abstract void stopServers();

    @BeforeAll
    void start() {
        nodes = servers();
        List<Integer> ports = nodes.stream().map(ServerProcess::port).toList();
        ports.forEach(port -> listeners.add(new Jedis(ServerProcess.HOST, port)));
        Config config = redisson(ports);
        config.setLockWatchdogTimeout(WATCHDOG_MS);
        redisson = Redisson.create(config);
        jedis = jedis(ports);
        locks = locks(ports, jedis);
    }

    @AfterAll
    void stop() {
        threads.shutdownNow();
        redisson.shutdown();
        locks.close();
        jedis.close();
        listeners.forEach(Jedis::close);
        stopServers();
    }

    @AfterEach
    void nothingIsLeft() {
        assertFalse(jedis.exists(A));
        assertFalse(jedis.exists(B));
        assertEquals(0, waiting());
        for (String key : jedis.keys("redisson_*{tag}*")) {
            assertTrue(key.startsWith("redisson_lock_token:") || jedis.ttl(key) != -1, key);
        }
    }

    private long waiting() {
        return nodes.stream().mapToLong(ServerProcess::waiting).sum();
    }

    /** How many Redisson clients listen for that lock, as they do while they wait. */
    private long listening(String key) {
        String channel = "redisson_lock__channel:" + key;
        return listeners.stream()
                .mapToLong(node -> node.pubsubNumSub(channel).get(channel) + node.pubsubShardNumSub(channel).get(channel))
                .sum();
    }

    /** Says a command of A. */
    private Object say(String command, Object... more) {
        return jedis.executeCommand(new CommandArguments(word(command)).key(A).addObjects(more));
    }

    private static ProtocolCommand word(String command) {
        return () -> SafeEncoder.encode(command);
    }

    private void interop(String value) {
        nodes.forEach(node -> node.say("CONFIG SET lock.redisson-interop " + value));
    }

    /** How often the servers have run a command. A script's name that they did not know fails first. */
    private long calls(String command) {
        String stat = "cmdstat_" + command + ":";
        return nodes.stream()
                .mapToLong(node -> node.info("commandstats", stat + "calls=")
                        - node.info("commandstats", stat + ".*failed_calls="))
                .sum();
    }

    /** Each try of Redisson's is one. */
    private long scripts() {
        return calls("eval") + calls("evalsha");
    }

    /** Takes it on another thread, once somebody is seen waiting; the time when it was had. */
    private Future<Long> waiter(Runnable take, Runnable give, Callable<Boolean> waits) throws Exception {
        Future<Long> had = threads.submit(() -> {
            take.run();
            long time = System.nanoTime();
            give.run();
            return time;
        });
        while (!waits.call()) {
            Thread.onSpinWait();
        }
        return had;
    }

    private Future<Long> waiterHere(LockSoLock lock) throws Exception {
        return waiter(lock::lock, lock::unlock, () -> waiting() == 1);
    }

    private Future<Long> waiterOfRedisson(RLock lock, String key) throws Exception {
        return waiter(lock::lock, lock::unlock, () -> listening(key) > 0);
    }

    private static double ms(long start, Future<Long> end) throws Exception {
        return (end.get(60, TimeUnit.SECONDS) - start) / 1e6;
    }

    /** Far below any lease, so it was a message or a notice that woke them; the figure itself is only told. */
    private void tell(String what, List<Double> times) {
        Collections.sort(times);
        double median = times.get(times.size() / 2);
        System.out.printf("%s: %s: p50 %.2f ms, longest %.2f ms%n", getClass().getSimpleName(), what, median,
                times.get(times.size() - 1));
        assertTrue(times.get(times.size() - 1) < 10_000);
    }

    @Test
    void eachKeepsTheOtherOut() {
        RLock there = redisson.getLock(A);
        LockSoLock here = locks.lock(A);
        there.lock();
        there.lock();
        Map<String, String> hash = jedis.hgetAll(A);
        assertFalse(here.tryLock());
        there.unlock();
        assertFalse(here.tryLock());
        assertEquals(hash.keySet(), jedis.hgetAll(A).keySet(), "and it is as Redisson has left it");
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
    void redissonWakesWhoWaitsHere() throws Exception {
        RLock there = redisson.getLock(A);
        List<Double> times = new ArrayList<>();
        for (int i = 0; i < ROUNDS; i++) {
            there.lock(60, TimeUnit.SECONDS);
            Future<Long> waiter = waiterHere(locks.lock(A));
            long start = System.nanoTime();
            there.unlock();
            times.add(ms(start, waiter));
        }
        tell("RLock.unlock to LOCK.ACQUIRE's answer", times);
    }

    @Test
    void whoWaitsByRedissonIsWoken() throws Exception {
        LockSoLock here = locks.lock(A, LockOptions.DEFAULT.withLease(Duration.ofMinutes(1)));
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
        tell("LOCK.RELEASE to the end of RLock.lock", times);
    }

    @Test
    void itsWatchdogKeepsALockThatIsWaitedForHere() throws Exception {
        RLock there = redisson.getLock(A);
        there.lock();
        Future<Long> waiter = waiterHere(locks.lock(A));
        awaitRenewals(3);
        assertFalse(waiter.isDone());
        there.unlock();
        assertNotNull(waiter.get(60, TimeUnit.SECONDS));
    }

    /** Sees the TTL rise so often. */
    private void awaitRenewals(int count) {
        long last = jedis.pttl(A);
        for (int seen = 0; seen < count;) {
            long now = jedis.pttl(A);
            assertTrue(now > 0, "the lease has ended");
            seen += now > last ? 1 : 0;
            last = now;
        }
    }

    /** It counts what it has locked itself without a lease, and renews for as long as some of that is left. */
    @Test
    void afterAPartialUnlockItsWatchdogGoesOn() {
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
        there.lock(1, TimeUnit.SECONDS);
        there.unlock();
        assertEquals(1, there.getHoldCount());
        assertEndsWithItsLease(there);
    }

    @Test
    void afterAPartialUnlockItsWatchdogForgetsAHoldOfOurs() throws Exception {
        RLock there = redisson.getLock(A);
        there.lock();
        String owner = jedis.hkeys(A).iterator().next();
        assertEquals(2L, say("LOCK.ACQUIRE", owner, "PX", 900));
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
        assertNotNull(waiter.get(60, TimeUnit.SECONDS), "it was let in");
        assertThrows(IllegalMonitorStateException.class, there::unlock);
    }

    /** It has waited for longer, and hears of the release; but that has handed the lock on already. */
    @Test
    void whoWaitsHereGoesFirst() throws Exception {
        RLock holder = redisson.getLock(A);
        holder.lock(60, TimeUnit.SECONDS);
        Future<Long> theirs = waiterOfRedisson(redisson.getLock(A), A);
        Future<Long> ours = waiterHere(locks.lock(A));
        holder.unlock();
        assertTrue(ours.get(60, TimeUnit.SECONDS) - theirs.get(60, TimeUnit.SECONDS) < 0);
    }

    @Test
    void withoutTheMessageItSleepsUntilTheLeaseIsOver() throws Exception {
        interop("no");
        try {
            assertSleepsUntilTheLeaseIsOver(redisson.getLock(A), locks.lock(A, BRIEF));
        } finally {
            interop("yes");
        }
    }

    /** They listen to other channels. */
    @Test
    void itsFairAndReadWriteLocksAreNotWoken() throws Exception {
        assertSleepsUntilTheLeaseIsOver(redisson.getFairLock(A), locks.lock(A, BRIEF));
        assertSleepsUntilTheLeaseIsOver(
                redisson.getReadWriteLock(A).writeLock(), locks.readWriteLock(A, BRIEF).writeLock());
    }

    private void assertSleepsUntilTheLeaseIsOver(RLock there, LockSoLock here) throws Exception {
        here.lock();
        long before = scripts();
        Future<Long> waiter = waiter(there::lock, there::unlock, () -> scripts() >= before + 2);
        long left = jedis.pttl(A);
        long start = System.nanoTime();
        here.unlock();
        assertTrue(ms(start, waiter) > left - 100);
    }

    @Test
    void forceUnlockByRedissonIsALossHere() throws Exception {
        BlockingQueue<Hold> lost = new LinkedBlockingQueue<>();
        Hold hold = locks.lock(A, LockOptions.DEFAULT.onLost(lost::add)).acquire();
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
        say("LOCK.FORCE");
        assertNotNull(waiter.get(60, TimeUnit.SECONDS));
        assertThrows(IllegalMonitorStateException.class, there::unlock);
    }

    @Test
    void theFairLock() throws Exception {
        RLock there = redisson.getFairLock(A);
        LockSoLock here = locks.lock(A);
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
    void itsReadWriteLockKeepsOthersOut() {
        RReadWriteLock there = redisson.getReadWriteLock(A);
        LockSoLock here = locks.lock(A);
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

    /** It looks at the field mode, which no plain lock has: Redisson's own neither. */
    @Test
    void itsReadWriteLockDoesNotSeeAPlainOne() {
        for (Runnable takes : List.<Runnable>of(locks.lock(A)::lock, redisson.getLock(A)::lock)) {
            takes.run();
            assertTrue(redisson.getReadWriteLock(A).writeLock().tryLock());
            assertEquals("write", jedis.hget(A, "mode"));
            jedis.del(A);
        }
        assertThrows(NotHeldException.class, locks.lock(A)::unlock);
        assertThrows(IllegalMonitorStateException.class, redisson.getLock(A)::unlock);
    }

    @Test
    void theMultiLock() {
        RLock there = redisson.getMultiLock(redisson.getLock(A), redisson.getLock(B));
        LockSoLock here = locks.multiLock(List.of(A, B), LockOptions.DEFAULT);
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
        assertFalse(jedis.exists(A), "and the other was given back");
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
        try (Hold hold = locks.lock(A, LockOptions.DEFAULT.withToken()).acquire()) {
            assertTrue(hold.token() > 1);
            assertFalse(there.tryLock());
        }
        assertEquals(2, there.lockAndGetToken());
        there.unlock();
        assertEquals(-1, jedis.ttl("redisson_lock_token:" + A), "and Redisson's stays for ever");
        assertTrue(jedis.ttl("lock:token:" + A) > 0);
    }

    @Test
    void theSemaphores() {
        LockSoSemaphore here = locks.semaphore(A, 1, LockOptions.DEFAULT);
        RSemaphore there = redisson.getSemaphore(A);
        RPermitExpirableSemaphore expirable = redisson.getPermitExpirableSemaphore(A);
        for (BooleanSupplier sets : List.<BooleanSupplier>of(() -> there.trySetPermits(1), () -> expirable.trySetPermits(1))) {
            assertTrue(sets.getAsBoolean());
            assertEquals("WRONGTYPE", assertThrows(LockException.Refused.class, here::tryAcquire).code());
            jedis.del(A);
        }
        assertTrue(here.tryAcquire());
        assertThrows(RedisException.class, there::tryAcquire);
        assertThrows(RedisException.class, expirable::tryAcquire);
        here.release();
    }

    /** The key is the same; here the key is looked at, there a message tells. */
    @Test
    void theLatch() throws Exception {
        String name = "latch"; // one with a tag is refused by a cluster, as Redisson's channel is in another slot
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
        while (calls("get") < before + 2) { // it looks, listens, and looks again
            Thread.onSpinWait();
        }
        assertEquals(0L, jedis.executeCommand(new CommandArguments(word("LATCH.DOWN")).key(name)));
        assertFalse(jedis.exists(name));
        assertFalse(awaits.isDone(), "it has not heard of it");
        there.trySetCount(1);
        there.countDown();
        awaits.get(60, TimeUnit.SECONDS);
    }

    /** Its last reader, as far as it knows, deletes the hash, with all readers that it does not know of. */
    @Test
    void readersDoNotMix() throws Exception {
        Hold hold = locks.readWriteLock(A, LockOptions.DEFAULT).readLock().acquire();
        RLock there = redisson.getReadWriteLock(A).readLock();
        assertTrue(there.tryLock());
        there.unlock();
        assertFalse(jedis.exists(A));
        assertThrows(NotHeldException.class, hold::release);
    }
}
