package so.lock.spring.integration;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.ConcurrentModificationException;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.event.LeaderEventPublisher;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;
import org.springframework.integration.support.locks.DistributedLock;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import so.lock.LockOptions;
import so.lock.Locks;
import so.lock.ServerProcess;
import so.lock.jedis.JedisLocks;

class RegistryTest {
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final int THREADS = 16;
    private static final int ROUNDS = 200;

    private final ServerProcess server = new ServerProcess();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private Locks locks;
    private DistributedLockRegistry registry;
    private int counter; // not volatile: the lock must make it visible

    @BeforeEach
    void begin() {
        locks = locks();
        registry = new DistributedLockRegistry(locks, "orders");
    }

    @AfterEach
    void end() {
        threads.shutdownNow();
        locks.close();
        server.close();
    }

    private Locks locks() {
        return JedisLocks.single(
                new HostAndPort(ServerProcess.HOST, server.port()), DefaultJedisClientConfig.builder().build());
    }

    private static void await(BooleanSupplier condition) {
        long start = System.nanoTime();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() - start < TimeUnit.SECONDS.toNanos(20), "in 20 s");
            LockSupport.parkNanos(1_000_000);
        }
    }

    private <T> T elsewhere(Callable<T> task) throws Exception {
        return threads.submit(task).get(20, TimeUnit.SECONDS);
    }

    private long left() {
        return Long.parseLong(server.command("PTTL orders:a"));
    }

    @Test
    void sixteenThreadsOfTwoRegistriesExcludeEachOther() throws Exception {
        try (Locks others = locks()) {
            DistributedLockRegistry second = new DistributedLockRegistry(others, "orders");
            List<Future<?>> all = new ArrayList<>();
            for (int i = 0; i < THREADS; i++) {
                DistributedLockRegistry mine = i % 2 == 0 ? registry : second;
                all.add(threads.submit(() -> {
                    for (int round = 0; round < ROUNDS; round++) {
                        mine.executeLocked("a", () -> {
                            counter++;
                            mine.executeLocked("a", () -> counter++);
                        });
                    }
                    return null;
                }));
            }
            for (Future<?> one : all) {
                one.get(60, TimeUnit.SECONDS);
            }
        }
        assertEquals(2 * THREADS * ROUNDS, counter);
        assertEquals(0, server.waiting());
        assertEquals("0", server.command("EXISTS orders:a"));
    }

    @Test
    void aFairRegistryGrantsInTheOrderOfArrival() throws Exception {
        DistributedLockRegistry fair = new DistributedLockRegistry(locks::fairLock, "orders", LockOptions.DEFAULT);
        List<Integer> order = new ArrayList<>();
        List<Future<?>> all = new ArrayList<>();
        fair.obtain("a").lock();
        for (int i = 0; i < THREADS; i++) {
            int number = i;
            all.add(threads.submit(() -> fair.executeLocked("a", () -> order.add(number))));
            await(() -> server.waiting() == number + 1);
        }
        fair.obtain("a").unlock();
        for (Future<?> one : all) {
            one.get(20, TimeUnit.SECONDS);
        }
        assertEquals(IntStream.range(0, THREADS).boxed().toList(), order);
    }

    @Test
    void aTimeToLiveIsTheLeaseAndIsRenewed() throws Exception {
        DistributedLock lock = registry.obtain("a");
        lock.lock(MINUTE.multipliedBy(10));
        assertTrue(left() > MINUTE.multipliedBy(9).toMillis());
        assertFalse(elsewhere(() -> registry.obtain("a").tryLock(Duration.ofMillis(1), MINUTE)));
        registry.renewLock("a", MINUTE);
        assertTrue(left() <= MINUTE.toMillis());
        lock.unlock();

        assertTrue(lock.tryLock(Duration.ZERO, Duration.ofMillis(300)));
        long entered = System.nanoTime();
        await(() -> System.nanoTime() - entered > TimeUnit.MILLISECONDS.toNanos(900)); // three leases
        lock.unlock(); // throws if it was lost
    }

    @Test
    void withoutRenewalALockEndsWithItsTimeToLive() throws Exception {
        registry = new DistributedLockRegistry(locks, "orders", LockOptions.DEFAULT.withoutRenewal());
        DistributedLock lock = registry.obtain("a");
        lock.lock(Duration.ofMillis(200));
        registry.renewLock("a");
        assertTrue(elsewhere(() -> registry.obtain("a").tryLock(20, TimeUnit.SECONDS)), "when it has expired");
        assertThrows(IllegalStateException.class, () -> registry.renewLock("a"));
        assertThrows(CannotAcquireLockException.class, lock::tryLock);
        assertThrows(ConcurrentModificationException.class, lock::unlock);
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    }

    @Test
    void onlyTheHolderRenewsAndUnlocks() throws Exception {
        registry.obtain("a").lock();
        assertThrows(IllegalStateException.class, () -> registry.renewLock("b"));
        elsewhere(() -> assertThrows(IllegalStateException.class, () -> registry.renewLock("a")));
        elsewhere(() -> assertThrows(IllegalMonitorStateException.class, () -> registry.obtain("a").unlock()));
        assertEquals("1", server.command("EXISTS orders:a"));
    }

    @Test
    void anInterruptEndsAWait() throws Exception {
        registry.obtain("a").lock();
        CompletableFuture<Throwable> thrown = new CompletableFuture<>();
        Thread waiter = new Thread(() ->
                thrown.complete(assertThrows(InterruptedException.class, registry.obtain("a")::lockInterruptibly)));
        waiter.start();
        await(() -> server.waiting() == 1);
        waiter.interrupt();
        thrown.get(20, TimeUnit.SECONDS);
        await(() -> server.waiting() == 0);
    }

    @Test
    void eachHolderHasAGreaterToken() {
        registry = new DistributedLockRegistry(locks, "orders", LockOptions.DEFAULT.fenced());
        RegistryLock lock = registry.obtain("a");
        lock.lock();
        long token = lock.currentHold().token().orElseThrow();
        lock.unlock();
        lock.lock(MINUTE);
        assertTrue(lock.currentHold().token().orElseThrow() > token);
        lock.unlock();
    }

    @Test
    void errorsAreThoseOfSpring() {
        server.command("SET orders:a text");
        CannotAcquireLockException refused = assertThrows(CannotAcquireLockException.class, registry.obtain("a")::lock);
        assertInstanceOf(so.lock.LockException.class, refused.getCause());
        assertThrows(IllegalArgumentException.class, () -> registry.obtain(1));
        server.close();
        assertThrows(CannotAcquireLockException.class, registry.obtain("b")::tryLock);
    }

    /** Spring's leader election locks and unlocks again and again, which a lost lock must not confuse. */
    @Test
    void aLeaderThatHasLostItsLockIsRevokedAndElectedAgain() {
        Events events = new Events();
        LockRegistryLeaderInitiator initiator = new LockRegistryLeaderInitiator(
                new DistributedLockRegistry(locks, "orders", LockOptions.DEFAULT.inSession()));
        initiator.setHeartBeatMillis(10);
        initiator.setBusyWaitMillis(10);
        initiator.setLeaderEventPublisher(events);
        initiator.start();
        await(() -> events.granted.get() == 1);
        String key = "orders:" + initiator.getContext().getRole();
        server.command("LOCK.FORCE " + key);
        await(() -> events.revoked.get() == 1 && events.granted.get() == 2);
        assertEquals("1", server.command("EXISTS " + key));
        initiator.stop();
        await(() -> server.command("EXISTS " + key).equals("0"));
    }

    private static final class Events implements LeaderEventPublisher {
        final AtomicInteger granted = new AtomicInteger();
        final AtomicInteger revoked = new AtomicInteger();

        @Override
        public void publishOnGranted(Object source, Context context, String role) {
            granted.incrementAndGet();
        }

        @Override
        public void publishOnRevoked(Object source, Context context, String role) {
            revoked.incrementAndGet();
        }

        @Override
        public void publishOnFailedToAcquire(Object source, Context context, String role) {}
    }
}
