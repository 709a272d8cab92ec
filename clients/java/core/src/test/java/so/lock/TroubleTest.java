package so.lock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static so.lock.Conditions.await;
import static so.lock.Conditions.ms;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import so.lock.internal.ServerException;

/** Outages, full servers, lost replies, and close(): nothing is lost, leaked or left. */
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class TroubleTest {
    private static final LockOptions STEADY = LockOptions.DEFAULT.withLease(Duration.ofSeconds(3));
    private static final Logger LOGGER = Logger.getLogger("so.lock");

    private final List<LogRecord> log = new ArrayList<>();
    private final Handler handler = new Handler() {
        @Override
        public void publish(LogRecord record) {
            synchronized (log) {
                log.add(record);
            }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    };

    @BeforeEach
    void listen() {
        LOGGER.addHandler(handler);
    }

    @AfterEach
    void unlisten() {
        LOGGER.removeHandler(handler);
    }

    private List<String> logged() {
        synchronized (log) {
            return log.stream().map(LogRecord::getMessage).toList();
        }
    }

    private static ServerException notHeld() {
        return new ServerException("NOTHELD the owner holds no such lock");
    }

    private static long threads() {
        return Thread.getAllStackTraces().keySet().stream().filter(one -> one.getName().startsWith("lock-so")).count();
    }

    @Test
    void aSessionOutlivesTheOutageOfAnotherNode() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a", LockOptions.DEFAULT.inSession()).acquireHold();
            wire.opening = node -> {
                if (node.equals("down")) {
                    throw FakeWire.lost();
                }
            };
            assertThrows(IllegalStateException.class, () -> locks.lock("down:b").tryLock(200, TimeUnit.MILLISECONDS));
            assertEquals(List.of("lock \"down:b\": no connection to server:6379 (the connection is lost); the wait goes on"), logged());
            int watches = wire.named("WATCH").size();
            wire.await("WATCH", watches + 5);
            assertFalse(hold.isLost());
        }
    }

    @Test
    void anErrorOfAListenerIsLoggedWithItsStackTrace() throws Exception {
        FakeWire wire = new FakeWire((received, line) ->
                received.name().equals("WATCH") ? "LOST" : FakeWire.success(received));
        LockOptions options = STEADY.onLost(lost -> {
            throw new IllegalStateException("the listener fails");
        });
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a", options).acquireHold();
            String text = "lock \"a\": error in the callback for its loss"; // another test may log something else
            Conditions.await(() -> logged().contains(text));
            StackTraceElement[] stack = log.get(logged().indexOf(text)).getThrown().getStackTrace();
            assertEquals(TroubleTest.class.getName(), stack[0].getClassName());
            assertTrue(hold.isLost());
        }
    }

    @Test
    void aClusterThatNeverRepliedIsLogged() {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        wire.refreshing = () -> {
            throw new IllegalStateException("no node replies");
        };
        try (Locks locks = new Locks(wire)) {
            locks.setConnectTimeout(Duration.ofMillis(300));
            assertThrows(IllegalStateException.class, locks.lock("?")::lock);
        }
        List<String> warnings = logged().stream().filter(text -> text.startsWith("lock \"?\": no connection to server:6379 ")).toList();
        assertEquals(1, warnings.size(), () -> logged().toString());
        assertTrue(warnings.get(0).contains("no node replies"), warnings.get(0));
    }

    @Test
    void aFairWaitOfManyBlockingCallsIsNoOutage() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("FAIR")) {
                throw line.silence();
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            locks.setMaxBlock(Duration.ofMillis(100));
            locks.lock("a").acquireHold().close();
            int open = wire.lines().size();
            assertThrows(RuntimeException.class, () -> locks.fairLock("f").tryLock(1, TimeUnit.SECONDS));
            assertTrue(wire.named("FAIR").size() >= 8, wire.named("FAIR").size() + " of 10: there are no pauses");
            assertEquals(List.of(), logged());
            assertTrue(wire.lines().size() >= open - 1, "idle connections stay open");
        }
    }

    @Test
    void anErrorReplyKeepsTheConnection() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RELEASE")) {
                throw notHeld();
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            for (int i = 0; i < 20; i++) {
                assertThrows(NotHeldException.class, () -> locks.lock("a").acquireHold().release());
            }
            assertEquals(2, wire.opened.get());
        }
    }

    @Test
    void aWatchLeavesTheReservedConnectionForTheRelease() throws Exception {
        CountDownLatch never = new CountDownLatch(1);
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("WATCH")) {
                line.blockUntil(never);
            }
            return FakeWire.success(received);
        });
        wire.limit = 2;
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.multiLock(List.of("a", "b"), LockOptions.DEFAULT.onLost(lost -> {})).acquireHold();
            wire.await("WATCH", 1);
            await(() -> wire.opened.get() > 2 || wire.named("WATCH").size() > 1); // that of the second key
            long start = System.nanoTime();
            hold.release();
            assertTrue(ms(start) < 1_000, ms(start) + " ms");
        }
    }

    @Test
    void closeRacesTheGrant() throws Exception {
        for (int i = 0; i < 300; i++) {
            int lag = i;
            Set<String> left = ConcurrentHashMap.newKeySet();
            CountDownLatch begun = new CountDownLatch(1);
            FakeWire wire = new FakeWire((received, line) -> {
                switch (received.name()) {
                    case "ACQUIRE" -> {
                        begun.countDown();
                        LockSupport.parkNanos(lag % 3 * 40_000);
                        left.add(received.owner());
                        return 1L;
                    }
                    case "RELEASE", "CANCEL" -> {
                        return left.remove(received.owner()) ? 2L : 0L;
                    }
                    default -> {
                        return FakeWire.success(received);
                    }
                }
            });
            Locks locks = new Locks(wire);
            AtomicReference<Hold> hold = new AtomicReference<>();
            Thread acquiring = new Thread(() -> {
                try {
                    hold.set(locks.lock("a").acquireHold());
                } catch (LockException.Closed | InterruptedException e) {
                    assertTrue(locks.closed);
                }
            });
            acquiring.start();
            begun.await();
            LockSupport.parkNanos(lag % 7 * 15_000);
            locks.close();
            acquiring.join();
            if (hold.get() != null) { // granted before: close() has released it
                assertThrows(NotHeldException.class, hold.get()::release);
            }
            assertEquals(Set.of(), left, "round " + i + (hold.get() == null ? ", closed" : ", acquired"));
        }
    }

    @Test
    void aPartialReleaseIsNotRepeated() throws Exception {
        AtomicInteger held = new AtomicInteger();
        AtomicInteger releases = new AtomicInteger();
        AtomicReference<String> owner = new AtomicReference<>();
        FakeWire wire = new FakeWire((received, line) -> {
            switch (received.name()) {
                case "SEMAPHORE" -> {
                    owner.set(owner(received));
                    held.set(3);
                    return 1L;
                }
                case "RELEASE" -> {
                    int count = Integer.parseInt(received.words().get(4));
                    int release = releases.incrementAndGet();
                    if (release == 1) {
                        throw FakeWire.lost(); // it has not arrived
                    }
                    long left = held.addAndGet(-count);
                    if (release == 2) {
                        throw FakeWire.lost(); // its reply is lost
                    }
                    return left;
                }
                case "INFO" -> {
                    return List.of("holders", List.of(List.of("owner", owner.get(), "holds", (long) held.get())));
                }
                default -> {
                    return FakeWire.success(received);
                }
            }
        });
        try (Locks locks = new Locks(wire)) {
            DistributedSemaphore semaphore = locks.semaphore("s", 5);
            semaphore.acquire(3);
            semaphore.release();
            assertEquals(2, held.get());
            assertEquals(2, releases.get());
            semaphore.release(2);
            assertEquals(0, held.get());
        }
    }

    private static String owner(FakeWire.Received received) {
        return received.words().stream().filter(word -> word.contains(":")).findFirst().orElseThrow();
    }

    @Test
    void anErrorDoesNotEndTheClock() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("WATCH")) {
                throw line.silence();
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            CountDownLatch reported = new CountDownLatch(1);
            LockOptions options = LockOptions.DEFAULT.withLease(Duration.ofMillis(200)).inSession();
            locks.lock("s", options.onLost(lost -> reported.countDown())).acquireHold();
            locks.lock("a", STEADY).acquireHold();
            wire.closing = () -> {
                throw new IllegalStateException("the event loop is shut down");
            };
            assertTrue(reported.await(20, TimeUnit.SECONDS));
            wire.await("RENEW", wire.named("RENEW").size() + 2);
            wire.closing = () -> {};
        }
    }

    @Test
    void tasksWaitUntilThreadsCanBeCreated() throws Exception {
        AtomicInteger failures = new AtomicInteger(8);
        Workers workers = new Workers(task -> {
            if (failures.getAndDecrement() > 0) {
                throw new Error("unable to create a thread");
            }
            return new Thread(task);
        });
        CountDownLatch done = new CountDownLatch(10);
        for (int i = 0; i < 9; i++) {
            workers.renewals.add("node", done::countDown);
        }
        workers.surely(done::countDown);
        assertTrue(done.await(20, TimeUnit.SECONDS));
        workers.close();
    }

    @Test
    void aStalledNodeDelaysNoRenewalOfAnother() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RENEW") && received.words().get(1).startsWith("stalled")) {
                throw line.silence();
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            for (int i = 0; i < 60; i++) {
                locks.lock("stalled:" + i, STEADY).acquireHold();
            }
            Hold hold = locks.lock("well:a", STEADY).acquireHold();
            long start = System.nanoTime();
            while (ms(start) < 7_000) {
                assertFalse(hold.isLost());
                Thread.sleep(10);
            }
        }
    }

    @Test
    void aSlowRefreshOfTheClusterDelaysNoTry() {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        wire.opening = node -> {
            throw FakeWire.lost();
        };
        CountDownLatch refreshed = new CountDownLatch(1);
        wire.refreshing = () -> {
            try {
                refreshed.await(3, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        };
        try (Locks locks = new Locks(wire)) {
            long start = System.nanoTime();
            assertThrows(IllegalStateException.class, locks.lock("a")::tryLock);
            assertTrue(ms(start) < 1_000, ms(start) + " ms");
            refreshed.countDown();
        }
    }

    @Test
    void triesShareTheConnectionThatIsBeingOpened() {
        CountDownLatch reachable = new CountDownLatch(1);
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        wire.opening = node -> {
            try {
                reachable.await();
            } catch (InterruptedException e) {
                throw FakeWire.lost();
            }
        };
        try (Locks locks = new Locks(wire)) {
            long start = System.nanoTime();
            for (int i = 0; i < 20; i++) {
                assertThrows(IllegalStateException.class, locks.lock("a")::tryLock);
            }
            assertTrue(wire.opened.get() <= 1 + ms(start) / 1_000 * 2, wire.opened.get() + " in " + ms(start) + " ms");
            reachable.countDown();
            await(() -> !wire.lines().isEmpty());
            assertTrue(locks.lock("a").tryLock());
            locks.lock("a").unlock();
        }
    }

    @Test
    void manyDoubtfulRequestsHaveABoundedNumberOfThreads() {
        FakeWire wire = new FakeWire((received, line) -> {
            throw line.silence();
        });
        try (Locks locks = new Locks(wire)) {
            List<Thread> tries = new ArrayList<>();
            for (int i = 0; i < 300; i++) {
                tries.add(new Thread(() ->
                        assertThrows(IllegalStateException.class, () -> locks.lock("a").tryLock(50, TimeUnit.MILLISECONDS))));
            }
            tries.forEach(Thread::start);
            await(() -> tries.stream().noneMatch(Thread::isAlive));
            assertTrue(threads() < 280, threads() + " threads"); // 256 of them open connections
            locks.close(Duration.ZERO);
        }
    }

    @Test
    void aLostHoldIsForgotten() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a", LockOptions.DEFAULT.withLease(Duration.ofMillis(50)).withoutRenewal()).acquireHold();
            await(hold::isLost);
            await(() -> locks.holdings.isEmpty());
        }
    }

    @Test
    void aLossBeforeTheReleaseIsNoticedOnADeadConnection() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RELEASE")) {
                throw notHeld();
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a").acquireHold();
            wire.lines().forEach(line -> line.dead = true); // the server has restarted, and has lost the lock
            Thread.sleep(400);
            assertThrows(NotHeldException.class, hold::release);
        }
    }

    @Test
    void theReasonOfALossIsInTheText() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            switch (received.name()) {
                case "RELEASE" -> throw notHeld();
                case "WATCH" -> {
                    return "LOST";
                }
                default -> {
                    return FakeWire.success(received);
                }
            }
        });
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a", LockOptions.DEFAULT.onLost(lost -> {})).acquireHold();
            await(hold::isLost);
            assertEquals("lock \"a\" is not held: the server reported its loss",
                    assertThrows(NotHeldException.class, hold::release).getMessage());
        }
    }

    @Test
    void closeReturnsWhenEverythingIsClosed() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        Locks locks = new Locks(wire);
        locks.lock("a").acquireHold();
        locks.close();
        assertTrue(wire.isClosed);
        assertEquals(List.of(), wire.lines());
    }

    @Test
    void timesWithoutEnd() throws Exception {
        AtomicInteger timeout = new AtomicInteger();
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("FAIR")) {
                timeout.set(line.timeoutMs);
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            locks.setMaxBlock(Duration.ofDays(30));
            locks.fairLock("a").acquireHold(Duration.ofSeconds(Long.MAX_VALUE)).close();
            assertTrue(timeout.get() > 0, timeout + " ms");
            locks.setMaxBlock(Duration.ofSeconds(Long.MAX_VALUE));
            locks.fairLock("a").acquireHold().close();
            assertTrue(timeout.get() > 0, timeout + " ms");
        }
    }

    @Test
    void aSlowReleaseDelaysNoOtherRelease() throws Exception {
        CountDownLatch first = new CountDownLatch(1);
        CountDownLatch blocked = new CountDownLatch(1);
        AtomicInteger releases = new AtomicInteger();
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RELEASE") && releases.incrementAndGet() == 1) {
                blocked.countDown();
                line.blockUntil(first);
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            DistributedSemaphore semaphore = locks.semaphore("a", 5);
            semaphore.acquire();
            semaphore.acquire();
            Thread slow = new Thread(semaphore::release);
            slow.start();
            blocked.await(); // a command is recorded before it is served: the other one could be served first
            Thread fast = new Thread(semaphore::release);
            fast.start();
            fast.join();
            assertTrue(slow.isAlive());
            first.countDown();
            slow.join();
        }
    }

    @Test
    void permitsToReleaseAreChecked() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire)) {
            DistributedSemaphore semaphore = locks.semaphore("a", 5);
            semaphore.acquire();
            assertThrows(IllegalArgumentException.class, () -> semaphore.release(-1));
            assertThrows(IllegalArgumentException.class, () -> semaphore.release(0));
            assertThrows(NotHeldException.class, () -> semaphore.release(2));
            assertEquals(List.of(), wire.named("RELEASE"), "all or none");
            semaphore.release();
        }
    }
}
