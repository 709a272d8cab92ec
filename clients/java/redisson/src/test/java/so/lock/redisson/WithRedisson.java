package so.lock.redisson;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.Timeout;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.util.SafeEncoder;
import so.lock.DistributedLock;
import so.lock.LockOptions;
import so.lock.Locks;
import so.lock.ServerProcess;

/** The real Redisson and the locks of this package with the same key, on one server and in a cluster. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@Timeout(120)
abstract class WithRedisson {
    /** So short that its watchdog renews during a test. */
    static final long WATCHDOG_MS = 4_500;

    static final LockOptions BRIEF =
            LockOptions.DEFAULT.withLease(Duration.ofSeconds(5)).withoutRenewal();
    static final String A = "{tag}a";
    static final String B = "{tag}b";

    final ExecutorService threads = Executors.newCachedThreadPool();
    private final List<Jedis> listeners = new ArrayList<>();
    private List<ServerProcess> nodes;
    RedissonClient redisson;
    UnifiedJedis jedis;
    Locks locks;

    /** Starts the servers, with lock.redisson-interop. */
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

    long waiting() {
        return nodes.stream().mapToLong(ServerProcess::waiting).sum();
    }

    /** How many Redisson clients are subscribed to the channel of that lock, as they are while they wait. */
    long listening(String key) {
        String channel = "redisson_lock__channel:" + key;
        return listeners.stream()
                .mapToLong(node -> node.pubsubNumSub(channel).get(channel) + node.pubsubShardNumSub(channel).get(channel))
                .sum();
    }

    /** Sends a command with the key A. */
    Object command(String command, Object... more) {
        return jedis.executeCommand(new CommandArguments(word(command)).key(A).addObjects(more));
    }

    static ProtocolCommand word(String command) {
        return () -> SafeEncoder.encode(command);
    }

    void interop(String value) {
        nodes.forEach(node -> node.command("CONFIG SET lock.redisson-interop " + value));
    }

    /** How often the servers have executed a command. An EVALSHA of a script that they do not know fails first. */
    long calls(String command) {
        String stat = "cmdstat_" + command + ":";
        return nodes.stream()
                .mapToLong(node -> node.info("commandstats", stat + "calls=")
                        - node.info("commandstats", stat + ".*failed_calls="))
                .sum();
    }

    /** How often Redisson has tried to acquire or release: each of these is one script. */
    long scripts() {
        return calls("eval") + calls("evalsha");
    }

    /**
     * Acquires and releases it on another thread, and returns when that thread waits. The result is the time of the
     * grant.
     */
    Future<Long> waiter(Runnable take, Runnable give, Callable<Boolean> waits) throws Exception {
        Future<Long> granted = threads.submit(() -> {
            take.run();
            long time = System.nanoTime();
            give.run();
            return time;
        });
        while (!waits.call()) {
            Thread.onSpinWait();
        }
        return granted;
    }

    Future<Long> waiterHere(DistributedLock lock) throws Exception {
        return waiter(lock::lock, lock::unlock, () -> waiting() == 1);
    }

    Future<Long> waiterOfRedisson(RLock lock, String key) throws Exception {
        return waiter(lock::lock, lock::unlock, () -> listening(key) > 0);
    }

    static double ms(long start, Future<Long> end) throws Exception {
        return (end.get(60, TimeUnit.SECONDS) - start) / 1e6;
    }

    /** Prints the times. All are far below any lease, so it was a message or a hand-off that ended each wait. */
    void report(String what, List<Double> times) {
        Collections.sort(times);
        double median = times.get(times.size() / 2);
        System.out.printf("%s: %s: p50 %.2f ms, longest %.2f ms%n", getClass().getSimpleName(), what, median,
                times.get(times.size() - 1));
        assertTrue(times.get(times.size() - 1) < 10_000);
    }

    void assertSleepsUntilTheLeaseExpires(RLock there, DistributedLock here) throws Exception {
        here.lock();
        long before = scripts();
        Future<Long> waiter = waiter(there::lock, there::unlock, () -> scripts() >= before + 2);
        long start = System.nanoTime();
        long left = jedis.pttl(A);
        here.unlock();
        assertTrue(ms(start, waiter) > left - 100);
    }
}
