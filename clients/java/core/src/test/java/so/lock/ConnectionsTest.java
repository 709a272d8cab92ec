package so.lock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static so.lock.Conditions.await;
import static so.lock.Conditions.ms;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import so.lock.internal.ServerException;

/** Connections are opened when they are needed, and closed only for a reason. */
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ConnectionsTest {
    private static final LockOptions STEADY = LockOptions.DEFAULT.withLease(Duration.ofSeconds(3));

    /** Waits of this number of threads, each for a lock of its own, which end when {@code go} is given. */
    private static void crowd(Locks locks, FakeWire wire, int count, CountDownLatch go) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            DistributedLock lock = locks.lock("crowd" + i);
            threads.add(new Thread(() -> {
                lock.lock();
                lock.unlock();
            }));
        }
        threads.forEach(Thread::start);
        wire.await("ACQUIRE", count);
        go.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
    }

    /** Every ACQUIRE of the crowd blocks until then; a WATCH until the next release. */
    private static FakeWire.Server blocking(CountDownLatch go) {
        AtomicInteger releases = new AtomicInteger();
        return (received, line) -> {
            if (received.name().equals("ACQUIRE") && received.words().get(1).startsWith("crowd")) {
                line.blockUntil(go);
            }
            if (received.name().equals("RELEASE")) {
                releases.incrementAndGet();
            }
            if (received.name().equals("WATCH")) {
                for (int before = releases.get(); releases.get() == before;) {
                    if (line.closed.getCount() == 0) {
                        throw FakeWire.lost();
                    }
                    LockSupport.parkNanos(200_000);
                }
                return "LOST";
            }
            return FakeWire.success(received);
        };
    }

    @Test
    void aBurstOfWaitsReachesTheServerAtOnce() throws Exception {
        CountDownLatch go = new CountDownLatch(1);
        FakeWire wire = new FakeWire(blocking(go));
        wire.opening = node -> LockSupport.parkNanos(5_000_000);
        try (Locks locks = new Locks(wire)) {
            long start = System.nanoTime();
            List<Long> arrived = new ArrayList<>();
            Thread observer = new Thread(() -> {
                await(() -> wire.named("ACQUIRE").size() == 100);
                arrived.add(ms(start));
            });
            observer.start();
            crowd(locks, wire, 100, go);
            observer.join();
            assertTrue(arrived.get(0) < 2_000, arrived + " ms");
            assertTrue(wire.opened.get() <= 102, wire.opened + " are opened");
        }
    }

    @Test
    void triesOverASlowLink() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire)) {
            locks.lock("a").acquireHold().close();
            wire.roundTripMs = 60;
            for (int i = 0; i < 3; i++) {
                Thread.sleep(300);
                assertTrue(locks.lock("a").tryLock());
                locks.lock("a").unlock();
            }
            assertEquals(2, wire.opened.get());
        }
    }

    @Test
    void aReleaseWithAListenerClosesNothing() throws Exception {
        CountDownLatch go = new CountDownLatch(1);
        FakeWire wire = new FakeWire(blocking(go));
        try (Locks locks = new Locks(wire)) {
            crowd(locks, wire, 5, go);
            List<FakeWire.FakeLine> before = wire.lines();
            for (int i = 1; i <= 10; i++) {
                Hold hold = locks.lock("a", i % 2 == 0 ? STEADY.onLost(lost -> {}) : STEADY.inSession()).acquireHold();
                wire.await("WATCH", i);
                hold.close();
                assertFalse(hold.isLost());
            }
            assertEquals(List.copyOf(before).size(), wire.opened.get(), "none is opened");
            assertTrue(wire.lines().containsAll(before), "none is closed");
        }
    }

    @Test
    void redirectionsCloseNothing() throws Exception {
        AtomicInteger errors = new AtomicInteger();
        List<String> texts = List.of("MOVED 1 other:1", "TRYAGAIN for a while", "ASK 1 other:1");
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RELEASE") && errors.get() < texts.size()) {
                throw new ServerException(texts.get(errors.getAndIncrement()));
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            locks.lock("a").acquireHold().close();
            locks.lock("a").acquireHold().close();
            assertEquals(3, errors.get());
            assertEquals(wire.opened.get(), wire.lines().size(), "none is closed");
        }
    }

    @Test
    void theHostOfARedirectionMayHaveColons() {
        assertEquals("::1:7000", new ServerException("ASK 1 ::1:7000").target());
        assertNull(new ServerException("MOVED 1 :7000").target());
    }

    @Test
    void idleConnectionsAreClosed() throws Exception {
        CountDownLatch go = new CountDownLatch(1);
        FakeWire wire = new FakeWire(blocking(go));
        try (Locks locks = new Locks(wire)) {
            locks.connections.idleLimit = TimeUnit.MILLISECONDS.toNanos(300);
            crowd(locks, wire, 8, go);
            await(() -> wire.lines().size() == 1);
            locks.lock("a").acquireHold().close();
        }
    }

    @Test
    void aLateReplyClosesNoOtherConnection() throws Exception {
        CountDownLatch go = new CountDownLatch(1);
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.words().get(1).equals("slow") && received.name().equals("ACQUIRE")) {
                throw line.silence();
            }
            return blocking(go).reply(received, line);
        });
        try (Locks locks = new Locks(wire)) {
            crowd(locks, wire, 5, go);
            int before = wire.lines().size();
            assertThrows(IllegalStateException.class, locks.lock("slow")::tryLock);
            assertThrows(NotAcquiredException.class, () -> locks.lock("slow").acquireHold(Duration.ofMillis(100)));
            assertEquals(2, wire.named("ACQUIRE").stream().filter(one -> one.words().get(1).equals("slow")).count());
            await(() -> wire.lines().size() == before - 2);
            assertEquals(before, wire.opened.get());
        }
    }

    @Test
    void aFullServerThatWasNeverReachedEndsAWait() {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        wire.limit = 0;
        try (Locks locks = new Locks(wire)) {
            locks.setConnectTimeout(Duration.ofMillis(300));
            RuntimeException e = assertThrows(IllegalStateException.class, locks.lock("a")::lock);
            assertEquals("ERR max number of clients reached", e.getMessage());
        }
    }

    @Test
    void anOutageOfANodeRefreshesTheClusterWithPauses() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        wire.opening = node -> {
            throw FakeWire.lost();
        };
        try (Locks locks = new Locks(wire)) {
            List<Thread> waits = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                waits.add(new Thread(() ->
                        assertThrows(NotAcquiredException.class, () -> locks.lock("a").acquireHold(Duration.ofSeconds(1)))));
            }
            waits.forEach(Thread::start);
            for (Thread wait : waits) {
                wait.join();
            }
            assertTrue(wire.refreshed.get() <= 4, wire.refreshed + " times in 1 s");
        }
    }

    @Test
    void aStoppedCallKeepsItsConnection() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire)) {
            locks.lock("a").acquireHold().close();
            Call call = new Call(locks.connections, "a");
            call.stop();
            assertThrows(Exception.class, () -> call.send(() -> new Call.Command(List.of("LOCK.INFO", "a")), System.nanoTime()));
            assertFalse(call.isDoubtful());
            assertEquals(2, wire.lines().size());
        }
    }
}
