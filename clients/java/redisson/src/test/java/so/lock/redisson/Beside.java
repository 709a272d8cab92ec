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
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.Timeout;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.util.SafeEncoder;
import so.lock.Hold;
import so.lock.LockOptions;
import so.lock.LockSoLock;
import so.lock.Locks;
import so.lock.ServerProcess;

/** The real Redisson and the locks here on one name; on one server and in a cluster. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@Timeout(120)
abstract class Beside {
    /** So short that its watchdog has to renew while a test looks. */
    private static final long WATCHDOG_MS = 900;

    private static final int ROUNDS = 30;
    private static final ProtocolCommand FORCE = () -> SafeEncoder.encode("LOCK.FORCE");
    private static final String A = "{tag}a";
    private static final String B = "{tag}b";

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final List<Jedis> nodes = new ArrayList<>();
    private RedissonClient redisson;
    private UnifiedJedis jedis;
    private Locks locks;

    /** Starts what there is to start, with lock.redisson-interop; the ports. */
    abstract List<Integer> servers() throws Exception;

    abstract Config redisson(List<Integer> ports);

    abstract UnifiedJedis jedis(List<Integer> ports);

    abstract Locks locks(List<Integer> ports, UnifiedJedis jedis);

    abstract void stopServers();

    @BeforeAll
    void start() throws Exception {
        List<Integer> ports = servers();
        for (int port : ports) {
            nodes.add(new Jedis(ServerProcess.HOST, port, DefaultJedisClientConfig.builder().build()));
        }
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
        nodes.forEach(Jedis::close);
        stopServers();
    }

    @AfterEach
    void nothingIsLeft() {
        assertFalse(jedis.exists(A));
        assertFalse(jedis.exists(B));
        assertEquals(0, waiting());
    }

    private long waiting() {
        return nodes.stream()
                .flatMap(node -> node.info("lock").lines())
                .filter(line -> line.startsWith("lock_waiters:"))
                .mapToLong(line -> Long.parseLong(line.substring(line.indexOf(':') + 1).strip()))
                .sum();
    }

    /** How many Redisson clients listen for that lock, as they do while they wait. */
    private long listening(String key) {
        String channel = "redisson_lock__channel:" + key;
        return nodes.stream()
                .mapToLong(node -> node.pubsubNumSub(channel).get(channel) + node.pubsubShardNumSub(channel).get(channel))
                .sum();
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
        jedis.executeCommand(new CommandArguments(FORCE).key(A));
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

    /** Redisson's reads and writes look at the field mode, which no plain lock has: not its own RLock either. */
    @Test
    void theReadWriteLock() {
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
}
