package so.lock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import so.lock.internal.ServerException;

/** Renewal, loss and release. */
@Timeout(60)
class KeepingTest {
    /** For holds that are to expire. */
    private static final LockOptions BRIEF = LockOptions.DEFAULT.withLease(Duration.ofMillis(150));
    /** For holds that are to be renewed, also on a machine that stalls now and then. */
    private static final LockOptions STEADY = LockOptions.DEFAULT.withLease(Duration.ofSeconds(3));

    private final BlockingQueue<Hold> lost = new LinkedBlockingQueue<>();

    private static ServerException notHeld() {
        return new ServerException("NOTHELD the owner holds no such lock");
    }

    @Test
    void itIsRenewedUntilItIsReleased() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.multiLock(List.of("a", "b"), STEADY).acquireHold();
            wire.await("MRENEW", 4); // at a third of the lease, all keys at once
            assertEquals("LOCK.MRENEW 2 a b " + hold.owner() + " PX 3000", wire.named("MRENEW").get(0).text());
            assertFalse(hold.isLost());
            hold.release();
            int renewals = wire.named("MRENEW").size();
            locks.lock("other", STEADY).lock();
            wire.await("RENEW", 4); // those of the other lock: longer than a lease
            assertTrue(wire.named("MRENEW").size() <= renewals + 1);
            assertThrows(NotHeldException.class, hold::release);
            hold.close(); // does nothing
        }
    }

    @Test
    void aRenewalThatGetsNotheldReportsTheLossOnce() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RENEW") || received.name().equals("RELEASE")) {
                throw notHeld();
            }
            if (received.name().equals("WATCH")) {
                line.blockUntil(new CountDownLatch(1));
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a", STEADY.onLost(lost::add)).acquireHold();
            assertEquals(hold, lost.poll(20, TimeUnit.SECONDS));
            assertTrue(hold.isLost());
            assertThrows(NotHeldException.class, hold::close);
            assertNull(lost.poll(300, TimeUnit.MILLISECONDS));
            assertEquals(1, wire.named("RENEW").size());
        }
    }

    @Test
    void aWatchReportsTheLoss() throws Exception {
        CountDownLatch forced = new CountDownLatch(1);
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("WATCH")) {
                line.blockUntil(forced);
                return "LOST";
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a", LockOptions.DEFAULT.onLost(lost::add)).acquireHold();
            wire.await("WATCH", 1);
            assertFalse(hold.isLost());
            forced.countDown();
            assertEquals(hold, lost.poll(20, TimeUnit.SECONDS));
        }
    }

    @Test
    void aReleaseIsNoLoss() throws Exception {
        CountDownLatch released = new CountDownLatch(1);
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("WATCH")) {
                line.blockUntil(released);
                return "LOST";
            }
            if (received.name().equals("RELEASE")) {
                released.countDown();
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a", LockOptions.DEFAULT.onLost(lost::add)).acquireHold();
            wire.await("WATCH", 1);
            hold.release();
            assertFalse(hold.isLost());
            assertNull(lost.poll(300, TimeUnit.MILLISECONDS));
        }
    }

    @Test
    void theClockReportsTheLossWhenNoRenewalSucceeds() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RENEW")) {
                throw FakeWire.lost();
            }
            return FakeWire.success(received);
        });
        long start = System.nanoTime();
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a", STEADY.onLost(lost::add)).acquireHold();
            assertEquals(hold, lost.poll(20, TimeUnit.SECONDS));
            assertTrue(System.nanoTime() - start >= TimeUnit.SECONDS.toNanos(3), "not before the lease has expired");
            assertTrue(wire.named("RENEW").size() > 2, "the renewal was repeated");
        }
    }

    @Test
    void withoutRenewalTheLeaseExpires() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire)) {
            locks.lock("a", BRIEF.withoutRenewal().onLost(lost::add)).acquireHold();
            assertNotNull(lost.poll(20, TimeUnit.SECONDS));
            assertEquals(List.of(), wire.named("RENEW"));
        }
    }

    @Test
    void theHoldOfAThreadThatHasEndedIsNotRenewed() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire)) {
            Thread thread = new Thread(locks.lock("a", STEADY.onLost(lost::add))::lock);
            thread.start();
            assertNotNull(lost.poll(20, TimeUnit.SECONDS));
            assertTrue(locks.threads.isEmpty());
        }
    }

    @Test
    void theSessionOfAThreadThatHasEndedEnds() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire)) {
            Thread thread = new Thread(locks.lock("a", STEADY.inSession().onLost(lost::add))::lock);
            thread.start();
            assertNotNull(lost.poll(20, TimeUnit.SECONDS));
            assertTrue(locks.threads.isEmpty());
        }
    }

    @Test
    void theHoldOfAThreadThatHasEndedIsForgottenIfTheServerReportsTheLoss() throws Exception {
        CountDownLatch forced = new CountDownLatch(1);
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("WATCH")) {
                line.blockUntil(forced);
                return "LOST";
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            Thread thread = new Thread(locks.lock("a", LockOptions.DEFAULT.onLost(lost::add))::lock);
            thread.start();
            thread.join();
            assertEquals(1, locks.threads.size());
            forced.countDown();
            assertNotNull(lost.poll(20, TimeUnit.SECONDS));
            assertTrue(locks.threads.isEmpty());
        }
    }

    @Test
    void afterClosingAThreadDoesNotEnterAgain() {
        Locks locks = new Locks(new FakeWire((received, line) -> FakeWire.success(received)));
        DistributedLock lock = locks.lock("a");
        lock.lock();
        locks.close();
        assertFalse(lock.isHeldByCurrentThread());
        assertThrows(LockException.Closed.class, lock::tryLock);
        assertEquals(1, lock.getHoldCount());
    }

    @Test
    void aRepeatedReleaseMayGetNotheld() throws Exception {
        AtomicInteger releases = new AtomicInteger();
        FakeWire wire = new FakeWire((received, line) -> {
            if (!received.name().equals("RELEASE")) {
                return FakeWire.success(received);
            }
            if (releases.incrementAndGet() < 3) {
                throw FakeWire.lost();
            }
            throw notHeld();
        });
        try (Locks locks = new Locks(wire)) {
            locks.lock("a").acquireHold().release();
            assertEquals(3, releases.get());
        }
    }

    @Test
    void notheldForTheFirstReleaseIsALoss() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().endsWith("RELEASE")) {
                throw notHeld();
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            DistributedLock lock = locks.lock("a");
            lock.lock();
            assertThrows(NotHeldException.class, lock::unlock);
            assertEquals(0, lock.getHoldCount());
            assertThrows(NotHeldException.class, locks.multiLock(List.of("a", "b"), STEADY).acquireHold()::release);
            assertEquals(List.of("LOCK.MRELEASE 2 a b", "LOCK.RELEASE a", "LOCK.RELEASE b"),
                    wire.texts().stream().filter(text -> text.contains("RELEASE")).skip(1).toList());
        }
    }

    @Test
    void aLostLockMustBeUnlockedFirst() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire)) {
            DistributedLock lock = locks.lock("a", BRIEF.withoutRenewal().onLost(lost::add));
            lock.lock();
            assertNotNull(lost.poll(20, TimeUnit.SECONDS));
            assertThrows(NotHeldException.class, lock::tryLock);
            assertThrows(NotHeldException.class, lock::unlock);
            assertTrue(lock.tryLock());
        }
    }

    @Test
    void aSessionIsBoundToTheNextConnection() throws Exception {
        AtomicBoolean cut = new AtomicBoolean();
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("WATCH") && cut.compareAndSet(false, true)) {
                throw FakeWire.lost();
            }
            if (received.name().equals("WATCH")) {
                line.blockUntil(new CountDownLatch(1));
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a", LockOptions.DEFAULT.inSession()).acquireHold();
            wire.await("WATCH", 2);
            assertEquals(List.of("LOCK.ACQUIRE a SESSION BLOCK 30000 ONCE", "LOCK.RENEW a SESSION"), wire.texts());
            assertFalse(hold.isLost());
            hold.release();
        }
    }

    @Test
    void aSessionLivesFromTheMomentAtWhichItIsBoundAgain() throws Exception {
        long leaseMs = 1500;
        long start = System.nanoTime();
        CountDownLatch watched = new CountDownLatch(1);
        AtomicInteger watches = new AtomicInteger();
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("WATCH")) {
                switch (watches.incrementAndGet()) {
                    case 1 -> throw FakeWire.lost();
                    case 2 -> {
                        sleepUntil(start, leaseMs + 300); // after the lease that was confirmed by the acquisition
                        throw FakeWire.lost();
                    }
                    default -> watched.countDown();
                }
            }
            return FakeWire.success(received);
        });
        LockOptions options = LockOptions.DEFAULT.withLease(Duration.ofMillis(leaseMs)).inSession().onLost(lost::add);
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a", options).acquireHold();
            wire.opening = node -> sleepUntil(start, leaseMs * 2 / 3); // no Sentinel replies before
            assertTrue(watched.await(20, TimeUnit.SECONDS));
            assertNull(lost.poll(300, TimeUnit.MILLISECONDS));
            assertFalse(hold.isLost());
            hold.release();
        }
    }

    private static void sleepUntil(long start, long ms) {
        long left = start + TimeUnit.MILLISECONDS.toNanos(ms) - System.nanoTime();
        LockSupport.parkNanos(Math.max(0, left));
    }

    @Test
    void aSessionThatTheServerHasEndedIsLost() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("WATCH")) {
                throw FakeWire.lost();
            }
            if (received.name().equals("RENEW")) {
                throw notHeld();
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a", LockOptions.DEFAULT.inSession().onLost(lost::add)).acquireHold();
            assertEquals(hold, lost.poll(20, TimeUnit.SECONDS));
            assertEquals(1, wire.named("RENEW").size());
        }
    }

    @Test
    void renewalsWithASlowReplicaDelayNoOthers() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RENEW") && received.text().contains("REPLICAS")) {
                throw line.silence();
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            for (int i = 0; i < 40; i++) {
                locks.lock("slow" + i, STEADY.withReplicas(1, Duration.ofSeconds(9))).acquireHold();
            }
            wire.await("RENEW", 1);
            Hold hold = locks.lock("a", STEADY).acquireHold();
            wire.await("RENEW", 4);
            long start = System.nanoTime();
            locks.lock("b", STEADY).acquireHold().close();
            assertTrue(System.nanoTime() - start < TimeUnit.SECONDS.toNanos(1), "the reserved connection is free");
            Thread.sleep(5_000);
            assertFalse(hold.isLost());
            locks.close(Duration.ZERO);
        }
    }

    @Test
    void theErrorOfRenewalsIsTheCause() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RENEW")) {
                throw new ServerException("NOPERM for renewals");
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a", BRIEF.onLost(lost::add)).acquireHold();
            assertNotNull(lost.poll(20, TimeUnit.SECONDS));
            NotHeldException e = assertThrows(NotHeldException.class, hold::release);
            assertEquals("lock \"a\" is not held: its lease expired", e.getMessage());
            assertTrue(e.getCause().getMessage().contains("NOPERM"), e.getCause().toString());
        }
    }

    @Test
    void theReleaseOfALostHoldDoesNotWaitForTheServer() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RELEASE")) {
                throw line.silence();
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            Hold silent = locks.lock("a", BRIEF.withoutRenewal().onLost(lost::add)).acquireHold();
            assertNotNull(lost.poll(20, TimeUnit.SECONDS));
            long start = System.nanoTime();
            assertThrows(NotHeldException.class, silent::release);
            assertTrue(System.nanoTime() - start < TimeUnit.MILLISECONDS.toNanos(500));
            wire.await("RELEASE", 1);
            Hold away = locks.lock("b", BRIEF.withoutRenewal().onLost(lost::add)).acquireHold();
            assertNotNull(lost.poll(20, TimeUnit.SECONDS));
            wire.opening = node -> {
                throw FakeWire.lost();
            };
            wire.lines().forEach(FakeWire.FakeLine::close);
            assertThrows(NotHeldException.class, away::release);
        }
    }

    @Test
    void manyForgottenHoldsHaveABoundedNumberOfThreads() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RELEASE")) {
                throw line.silence();
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            List<Hold> holds = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
                holds.add(locks.lock("a" + i).acquireHold());
            }
            holds.forEach(hold -> ((Holding) hold.held).forgotten());
            wire.await("RELEASE", 1);
            long threads = Thread.getAllStackTraces().keySet().stream()
                    .filter(one -> one.getName().startsWith("lock-so"))
                    .count();
            assertTrue(threads < 30, threads + " threads");
            locks.close(Duration.ZERO);
        }
    }
}
