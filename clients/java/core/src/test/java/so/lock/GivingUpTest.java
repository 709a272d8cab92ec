package so.lock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import so.lock.internal.ServerException;

/** Requests that are given up leave nothing behind, and requests that were lost are sent again. */
@Timeout(60)
class GivingUpTest {
    private static final LockOptions OPTIONS = LockOptions.DEFAULT.withLease(Duration.ofSeconds(60));

    /** Interrupts a thread that acquires, when its request has been received. Returns the exception of the thread. */
    private static Throwable interrupted(FakeWire wire, DistributedLock lock, String name) throws InterruptedException {
        AtomicReference<Throwable> end = new AtomicReference<>();
        Thread thread = new Thread(() -> {
            try {
                lock.lockInterruptibly();
            } catch (Throwable e) {
                end.set(e);
            }
        });
        thread.start();
        wire.await(name, 1);
        thread.interrupt();
        thread.join();
        return end.get();
    }

    @Test
    void anInterruptThatRacesTheGrant() throws Exception {
        CountDownLatch granted = new CountDownLatch(1);
        AtomicInteger cancels = new AtomicInteger();
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("ACQUIRE")) {
                line.blockUntil(granted);
                return 1L;
            }
            if (cancels.incrementAndGet() < 3) {
                return 0L; // the request has not arrived yet
            }
            granted.countDown();
            return 2L;
        });
        try (Locks locks = new Locks(wire)) {
            assertEquals(InterruptedException.class, interrupted(wire, locks.lock("a", OPTIONS), "ACQUIRE").getClass());
            wire.await("CANCEL", 3);
            assertEquals(3, wire.named("CANCEL").size());
            FakeWire.Received cancel = wire.named("CANCEL").get(2);
            assertEquals("LOCK.CANCEL a " + wire.named("ACQUIRE").get(0).owner() + " RELEASE", cancel.text());
        }
    }

    @Test
    void aGrantThatIsReadAfterACancelThatFoundNothing() throws Exception {
        CountDownLatch firstCancel = new CountDownLatch(1);
        AtomicInteger cancels = new AtomicInteger();
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("ACQUIRE")) {
                line.blockUntil(firstCancel);
                return 1L;
            }
            firstCancel.countDown();
            return cancels.incrementAndGet() == 1 ? 0L : 2L;
        });
        try (Locks locks = new Locks(wire)) {
            assertEquals(InterruptedException.class, interrupted(wire, locks.lock("a", OPTIONS), "ACQUIRE").getClass());
            wire.await("CANCEL", 2);
            assertEquals(2, wire.named("CANCEL").size());
        }
    }

    @Test
    void aMultiLockIsCancelledWithMrelease() throws Exception {
        CountDownLatch cancelled = new CountDownLatch(1);
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("MACQUIRE")) {
                line.blockUntil(cancelled);
                return 2L;
            }
            cancelled.countDown();
            return received.name().equals("MRELEASE") ? 2L : 0L;
        });
        try (Locks locks = new Locks(wire)) {
            DistributedLock lock = locks.multiLock(List.of("a", "b"), OPTIONS);
            assertEquals(InterruptedException.class, interrupted(wire, lock, "MACQUIRE").getClass());
            wire.await("MRELEASE", 1);
            assertEquals(List.of("LOCK.CANCEL a", "LOCK.MRELEASE 2 a b"), wire.texts().subList(1, 3));
        }
    }

    @Test
    void anInterruptDoesNotWaitForAServerThatDoesNotRespond() throws Exception {
        CountDownLatch never = new CountDownLatch(1);
        FakeWire wire = new FakeWire((received, line) -> {
            line.blockUntil(never);
            return 1L;
        });
        try (Locks locks = new Locks(wire)) {
            assertEquals(InterruptedException.class, interrupted(wire, locks.lock("a", OPTIONS), "ACQUIRE").getClass());
            wire.await("CANCEL", 1);
            assertEquals(1, wire.named("CANCEL").size(), "it has no reply yet");
        }
    }

    @Test
    void lockIsNotInterrupted() throws Exception {
        CountDownLatch go = new CountDownLatch(1);
        FakeWire wire = new FakeWire((received, line) -> {
            line.blockUntil(go);
            return 1L;
        });
        try (Locks locks = new Locks(wire)) {
            AtomicReference<Boolean> flag = new AtomicReference<>();
            Thread thread = new Thread(() -> {
                locks.lock("a", OPTIONS).lock();
                flag.set(Thread.currentThread().isInterrupted());
                locks.lock("a", OPTIONS).unlock();
            });
            thread.start();
            wire.await("ACQUIRE", 1);
            thread.interrupt();
            go.countDown();
            thread.join();
            assertTrue(flag.get(), "the thread is still interrupted");
            assertEquals(List.of(), wire.named("CANCEL"));
            assertEquals(1, wire.named("RELEASE").size());
        }
    }

    @Test
    void anInterruptedThreadDoesNotBegin() {
        FakeWire wire = new FakeWire((received, line) -> 1L);
        try (Locks locks = new Locks(wire)) {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, locks.lock("a")::lockInterruptibly);
            assertFalse(Thread.interrupted());
            assertEquals(List.of(), wire.texts());
        }
    }

    @Test
    void afterALostReplyTheRequestIsSentAgain() throws Exception {
        AtomicInteger sends = new AtomicInteger();
        FakeWire wire = new FakeWire((received, line) -> {
            if (sends.incrementAndGet() <= 2) {
                throw FakeWire.lost();
            }
            return 1L;
        });
        try (Locks locks = new Locks(wire)) {
            locks.lock("a", OPTIONS).acquireHold(Duration.ofSeconds(20));
            List<FakeWire.Received> acquired = wire.named("ACQUIRE");
            assertEquals(3, acquired.size());
            assertEquals(1, acquired.stream().map(FakeWire.Received::owner).distinct().count());
            assertTrue(acquired.stream().allMatch(one -> one.text().endsWith(" ONCE")));
            assertEquals(4, wire.opened.get(), "each on a new connection, and one for the release");
        }
    }

    @Test
    void aLostRequestIsCancelledWhenTheWaitTimesOut() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.words().get(1).equals("b")) {
                return 1L;
            } else if (received.name().equals("ACQUIRE")) {
                throw FakeWire.lost();
            }
            return 0L;
        });
        try (Locks locks = new Locks(wire)) {
            locks.lock("b").tryLock(20, TimeUnit.SECONDS); // a connection is open
            assertEquals("the connection is lost",
                    assertThrows(IllegalStateException.class, locks.lock("a")::tryLock).getMessage());
            wire.await("CANCEL", 2);
            assertEquals(2, wire.named("CANCEL").size(), "once more a little later: the request may have arrived late");
        }
    }

    @Test
    void cancellingIsRepeatedAfterLostConnections() throws Exception {
        AtomicInteger cancels = new AtomicInteger();
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.words().get(1).equals("b")) {
                return 1L;
            } else if (received.name().equals("ACQUIRE") || cancels.incrementAndGet() < 4) {
                throw FakeWire.lost();
            }
            return 2L;
        });
        try (Locks locks = new Locks(wire)) {
            locks.lock("b").tryLock(20, TimeUnit.SECONDS); // a connection is open
            assertThrows(IllegalStateException.class, locks.lock("a")::tryLock);
            wire.await("CANCEL", 4);
        }
    }

    @Test
    void anErrorAfterALostReplyIsFollowedByACancel() throws Exception {
        AtomicInteger sends = new AtomicInteger();
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("CANCEL")) {
                return 2L;
            }
            if (sends.incrementAndGet() == 1) {
                throw FakeWire.lost();
            }
            throw new ServerException("OOM command not allowed");
        });
        try (Locks locks = new Locks(wire)) {
            assertThrows(LockException.class, locks.lock("a")::lock);
            wire.await("CANCEL", 1);
            assertEquals(1, wire.named("CANCEL").size());
        }
    }

    @Test
    void afterTransientErrorsTheRequestIsSentAgain() throws Exception {
        AtomicInteger sends = new AtomicInteger();
        List<String> errors = List.of("READONLY", "UNBLOCKED", "LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN");
        FakeWire wire = new FakeWire((received, line) -> {
            int ask = sends.getAndIncrement();
            if (ask < errors.size()) {
                throw new ServerException(errors.get(ask) + " for a while");
            }
            return 1L;
        });
        try (Locks locks = new Locks(wire)) {
            assertTrue(locks.lock("a").tryLock(20, TimeUnit.SECONDS));
            assertEquals(1 + errors.size(), wire.opened.get(), "one for the release, and one after each but TRYAGAIN");
        }
    }

    @Test
    void redirectionsAreFollowed() throws Exception {
        AtomicInteger sends = new AtomicInteger();
        FakeWire wire = new FakeWire((received, line) -> {
            switch (sends.getAndIncrement()) {
                case 0 -> throw new ServerException("MOVED 7 other:1");
                case 1 -> throw new ServerException("ASK 7 third:2");
                default -> {
                    return 1L;
                }
            }
        });
        try (Locks locks = new Locks(wire)) {
            assertTrue(locks.lock("a").tryLock(), "also by a try");
            List<String> way = wire.received().stream().map(one -> one.node() + " " + one.name()).toList();
            assertEquals(List.of("node ACQUIRE", "other:1 ACQUIRE", "third:2 ASKING", "third:2 ACQUIRE"), way);
            while (wire.refreshed.get() < 1) {
                Thread.onSpinWait(); // in the background
            }
        }
    }

    @Test
    void anIdleConnectionThatIsDeadIsReplaced() {
        AtomicInteger sends = new AtomicInteger();
        FakeWire wire = new FakeWire((received, line) -> {
            if (sends.incrementAndGet() == 3) {
                throw FakeWire.lost(); // the idle one, at the second tryLock
            }
            return 1L;
        });
        try (Locks locks = new Locks(wire)) {
            assertTrue(locks.lock("a").tryLock());
            locks.lock("a").unlock();
            long start = System.nanoTime();
            try {
                assertTrue(locks.lock("a").tryLock());
            } catch (IllegalStateException e) {
                if (System.nanoTime() - start < TimeUnit.MILLISECONDS.toNanos(500)) {
                    throw e;
                }
                anIdleConnectionThatIsDeadIsReplaced(); // after such a stall it is not known whether it was dead before
                return;
            }
            assertEquals(2, wire.opened.get(), "the dead one, and another one");
        }
    }

    @Test
    void aConnectionThatIsLostAfterACancelIsFollowedByAnother() throws Exception {
        AtomicLong lost = new AtomicLong();
        CountDownLatch later = new CountDownLatch(1);
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("ACQUIRE")) {
                try {
                    line.blockUntil(new CountDownLatch(1));
                } finally {
                    lost.set(System.nanoTime());
                }
            }
            if (lost.get() != 0 && System.nanoTime() - lost.get() > TimeUnit.MILLISECONDS.toNanos(80)) {
                later.countDown();
            }
            return 0L;
        });
        try (Locks locks = new Locks(wire)) {
            assertEquals(InterruptedException.class, interrupted(wire, locks.lock("a", OPTIONS), "ACQUIRE").getClass());
            assertTrue(later.await(10, TimeUnit.SECONDS), "the request may arrive after the first one");
        }
    }

    @Test
    void theTimeOfReplicasIsAddedToABlockingCallOfAFairWait() throws Exception {
        AtomicInteger timeout = new AtomicInteger();
        FakeWire wire = new FakeWire((received, line) -> {
            timeout.set(line.timeoutMs);
            return 1L;
        });
        try (Locks locks = new Locks(wire)) {
            locks.setMaxBlock(Duration.ofMillis(200));
            locks.fairLock("a", OPTIONS.withReplicas(1, Duration.ofSeconds(3))).acquireHold();
            assertEquals(3_200, timeout.get());
        }
    }

    @Test
    void namingManyHoldersEndsInTime() {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("MACQUIRE")) {
                return null;
            }
            LockSupport.parkNanos(1_000_000);
            return List.of();
        });
        try (Locks locks = new Locks(wire)) {
            List<String> keys = IntStream.range(0, 500).mapToObj(i -> "k" + i).toList();
            long start = System.nanoTime();
            assertThrows(NotAcquiredException.class, () -> locks.multiLock(keys).acquireHold(Duration.ZERO));
            long ms = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
            assertTrue(ms < 250, ms + " ms");
        }
    }
}
