package so.lock.shedlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockingTaskExecutor;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.exceptions.JedisConnectionException;
import so.lock.Hold;
import so.lock.Locks;
import so.lock.ServerProcess;
import so.lock.jedis.JedisLocks;

/** What ShedLock's own tests do not cover. */
class ProviderTest {
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final Duration SHORT = Duration.ofMillis(50);

    private final ServerProcess server = new ServerProcess();
    private Locks locks;
    private DistributedLockProvider provider;

    @BeforeEach
    void begin() {
        locks = locks(server.port());
        provider = new DistributedLockProvider(locks);
    }

    @AfterEach
    void end() {
        locks.close();
        server.close();
    }

    private static Locks locks(int port) {
        return JedisLocks.single(
                new HostAndPort(ServerProcess.HOST, port), DefaultJedisClientConfig.builder().build());
    }

    private static LockConfiguration report(Duration atMost, Duration atLeast) {
        return new LockConfiguration(Instant.now(), "report", atMost, atLeast);
    }

    private boolean isLocked() {
        return server.command("EXISTS shedlock:report").equals("1");
    }

    private long left() {
        return Long.parseLong(server.command("PTTL shedlock:report"));
    }

    private static void await(BooleanSupplier condition) {
        long start = System.nanoTime();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() - start < TimeUnit.SECONDS.toNanos(20), "in 20 s");
            LockSupport.parkNanos(1_000_000);
        }
    }

    @Test
    void whatIsLeftOfLockAtLeastForOutlivesTheProcess() {
        provider.lock(report(MINUTE.multipliedBy(10), MINUTE)).orElseThrow().unlock();
        locks.close();
        assertTrue(isLocked());
        assertTrue(left() <= MINUTE.toMillis(), "shortened to what is left of lockAtLeastFor");
        try (Locks others = locks(server.port())) {
            assertTrue(new DistributedLockProvider(others).lock(report(MINUTE, Duration.ZERO)).isEmpty());
        }
    }

    @Test
    void lockAtLeastForOutlivesTheSession() {
        provider.inSession().lock(report(MINUTE, MINUTE)).orElseThrow().unlock();
        locks.close();
        assertTrue(isLocked());
        assertTrue(left() <= MINUTE.toMillis());
    }

    @Test
    void aSessionEndsWithTheTaskAndNotWithLockAtMostFor() {
        SimpleLock held = provider.inSession().lock(report(SHORT, Duration.ZERO)).orElseThrow();
        provider.lock(new LockConfiguration(Instant.now(), "other", SHORT, Duration.ZERO)).orElseThrow();
        await(() -> server.command("EXISTS shedlock:other").equals("0"));
        assertTrue(isLocked());
        SimpleLock extended = held.extend(MINUTE, Duration.ZERO).orElseThrow();
        extended.unlock();
        assertFalse(isLocked());
    }

    @Test
    void aLossIsReportedAndTheTaskKeepsItsError() {
        CompletableFuture<Hold> lost = new CompletableFuture<>();
        DistributedLockProvider notified = provider.onLost(lost::complete);
        LockingTaskExecutor executor = new DefaultLockingTaskExecutor(notified);
        LockingTaskExecutor.Task task = () -> {
            Hold hold = notified.currentHold("report").orElseThrow();
            server.command("LOCK.FORCE shedlock:report");
            assertEquals(hold, lost.get(20, TimeUnit.SECONDS));
            throw new IOException("of the task");
        };
        IOException thrown = assertThrows(
                IOException.class, () -> executor.executeWithLock(task, report(MINUTE, Duration.ZERO)));
        assertEquals("of the task", thrown.getMessage());
    }

    @Test
    void theNextHolderIsNotReleasedByTheLastOne() {
        SimpleLock late = provider.lock(report(SHORT, Duration.ZERO)).orElseThrow();
        await(() -> !isLocked());
        SimpleLock next = provider.lock(report(MINUTE, Duration.ZERO)).orElseThrow();
        late.unlock();
        assertTrue(isLocked());
        assertTrue(provider.currentHold("report").isPresent());
        next.unlock();
        assertTrue(provider.currentHold("report").isEmpty());
    }

    @Test
    void eachHolderHasAGreaterToken() {
        SimpleLock first = provider.lock(report(MINUTE, Duration.ZERO)).orElseThrow();
        long token = provider.currentHold("report").orElseThrow().token().orElseThrow();
        first.unlock();
        provider.lock(report(MINUTE, Duration.ZERO)).orElseThrow();
        assertTrue(provider.currentHold("report").orElseThrow().token().orElseThrow() > token);
    }

    @Test
    void aServerThatCannotBeReachedIsAnErrorAndNoSkippedTask() {
        server.close();
        assertThrows(JedisConnectionException.class, () -> provider.lock(report(MINUTE, Duration.ZERO)));
    }

    @Test
    void anInterruptEndsItAtOnce() {
        long start = System.nanoTime();
        Thread.currentThread().interrupt();
        assertThrows(LockException.class, () -> provider.lock(report(MINUTE, Duration.ZERO)));
        assertTrue(Thread.interrupted());
        assertTrue(System.nanoTime() - start < TimeUnit.SECONDS.toNanos(1));
    }

    @Test
    void aLockThatCannotBeKeptForLockAtLeastForIsReleased() {
        SimpleLock held = provider.lock(report(MINUTE, MINUTE)).orElseThrow();
        server.command("ACL SETUSER default -lock.guard");
        assertEquals("NOPERM", assertThrows(so.lock.LockException.class, held::unlock).code());
        assertFalse(isLocked());
    }

    @Test
    void aRefusalIsAnError() {
        server.command("SET shedlock:report text");
        so.lock.LockException refused = assertThrows(
                so.lock.LockException.class, () -> provider.lock(report(MINUTE, Duration.ZERO)));
        assertEquals("WRONGTYPE", refused.code());
        assertEquals(Optional.empty(), provider.currentHold("report"));
    }
}
