package so.lock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import so.lock.internal.ServerException;

/** Which commands each call sends. */
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class LockTest {
    private static final LockOptions OPTIONS = LockOptions.DEFAULT.withLease(Duration.ofSeconds(60));

    private final FakeWire kind = new FakeWire((received, line) -> FakeWire.success(received));

    @Test
    void anotherLockByTheSameThreadSendsNothing() {
        try (Locks locks = new Locks(kind)) {
            DistributedLock lock = locks.lock("a", OPTIONS);
            lock.lock();
            assertTrue(locks.lock("a", OPTIONS).tryLock(), "another object, the same lock");
            assertEquals(2, lock.getHoldCount());
            lock.unlock();
            assertTrue(lock.isHeldByCurrentThread());
            assertEquals(List.of("LOCK.ACQUIRE a PX 60000 BLOCK 30000 ONCE"), kind.texts());
            lock.unlock();
            assertFalse(lock.isHeldByCurrentThread());
            assertEquals(List.of("LOCK.ACQUIRE a PX 60000 BLOCK 30000 ONCE", "LOCK.RELEASE a"), kind.texts());
            assertEquals(2, kind.opened.get(), "one to wait, and one to release");
        }
    }

    @Test
    void eachAcquisitionHasAnOwnerOfItsOwn() {
        try (Locks locks = new Locks(kind)) {
            for (int i = 0; i < 2; i++) {
                locks.lock("a").lock();
                locks.lock("a").unlock();
            }
            List<FakeWire.Received> acquired = kind.named("ACQUIRE");
            assertFalse(acquired.get(0).owner().equals(acquired.get(1).owner()));
        }
    }

    @Test
    void unlockByAThreadThatHoldsNothing() {
        try (Locks locks = new Locks(kind)) {
            assertThrows(IllegalMonitorStateException.class, locks.lock("a")::unlock);
            assertThrows(NotHeldException.class, locks.readWriteLock("a", OPTIONS).readLock()::unlock);
            assertThrows(NotHeldException.class, locks.semaphore("a", 1, OPTIONS)::release);
            assertThrows(UnsupportedOperationException.class, locks.lock("a")::newCondition);
            assertEquals(List.of(), kind.texts());
        }
    }

    @Test
    void theCommandsOfEachKind() throws Exception {
        LockOptions fenced = OPTIONS.fenced().withReplicas(2, Duration.ofMillis(50));
        try (Locks locks = new Locks(kind)) {
            locks.fairLock("a", fenced).acquireHold().close();
            locks.multiLock(List.of("a", "b"), OPTIONS).acquireHold(Duration.ZERO).close();
            locks.multiLock(new MultiKeys().write("/a").read("b", "/").write("b"), OPTIONS).acquireHold(Duration.ZERO).close();
            locks.semaphore("a", 5, OPTIONS).acquireHold(2).close();
            locks.readWriteLock("a", OPTIONS).readLock().acquireHold().close();
            try (Hold hold = locks.readWriteLock("a", fenced).writeLock().acquireHold()) {
                assertEquals(1L, hold.token().getAsLong());
            }
        }
        assertEquals(
                List.of("LOCK.FAIR a PX 60000 BLOCK 0 FENCED ONCE REPLICAS 2 50", "LOCK.RELEASE a",
                        "LOCK.MACQUIRE 2 a b PX 60000 ONCE", "LOCK.MRELEASE 2 a b",
                        "LOCK.MACQUIRE 3 / /a b MODES READ WRITE WRITE PX 60000 ONCE",
                        "LOCK.MRELEASE 3 / /a b MODES READ WRITE WRITE",
                        "LOCK.SEMAPHORE a 5 PERMITS 2 PX 60000 BLOCK 30000 ONCE", "LOCK.RELEASE a PERMITS 2",
                        "LOCK.RWREAD a PX 60000 BLOCK 30000 ONCE", "LOCK.RELEASE a READ",
                        "LOCK.RWWRITE a PX 60000 BLOCK 30000 FENCED ONCE REPLICAS 2 50",
                        "LOCK.RELEASE a WRITE"),
                kind.texts());
    }

    @Test
    void aFairWaitBlocksForTheWholeWaitAndOthersForMaxBlock() throws Exception {
        try (Locks locks = new Locks(kind)) {
            locks.fairLock("a", OPTIONS).acquireHold(Duration.ofHours(1)).close();
            long block = Long.parseLong(kind.texts().get(0).replaceAll(".* BLOCK (\\d+) .*", "$1"));
            assertTrue(block > 1_800_000 && block <= 3_600_000, kind.texts().get(0));
            locks.setMaxBlock(Duration.ofSeconds(7));
            locks.lock("a", OPTIONS).acquireHold(Duration.ofHours(1)).close();
            assertTrue(kind.texts().get(2).contains(" BLOCK 7000 "));
        }
    }

    @Test
    void invalidOptionsAreRefusedAtOnce() {
        try (Locks locks = new Locks(kind)) {
            LockOptions fenced = OPTIONS.fenced();
            refused("fenced: a multi-key lock has no fencing token", () -> locks.multiLock(List.of("a"), fenced));
            refused("fenced: a read lock has no fencing token", locks.readWriteLock("a", fenced)::readLock);
            refused("fenced: a semaphore has no fencing token", () -> locks.semaphore("a", 1, fenced));
            refused("keys must not be empty", () -> locks.multiLock(List.of()));
            refused("keys must not be empty", () -> locks.multiLock(new MultiKeys()));
            refused("limit must be at least 1, not 0", () -> locks.semaphore("a", 0));
            refused("permits must be from 1 to the limit of 3, not 4", () -> locks.semaphore("a", 3).acquireHold(4));
            refused("permits must be from 1 to the limit of 3, not 0", () -> locks.semaphore("a", 3).acquireHold(0));
            refused("maxBlock must be greater than 0, not 0", () -> locks.setMaxBlock(Duration.ZERO));
            refused("connectTimeout must be greater than 0, not -1", () -> locks.setConnectTimeout(Duration.ofSeconds(-1)));
            refused("lease must be greater than 0, not 0", () -> OPTIONS.withLease(Duration.ZERO));
            refused("lease must be at least 1 ms, not 0.0005 ms", () -> OPTIONS.withLease(Duration.ofNanos(500)));
            refused("replicas must be at least 1, not 0", () -> OPTIONS.withReplicas(0, Duration.ofSeconds(1)));
            refused("replicas: the time must be greater than 0, not 0", () -> OPTIONS.withReplicas(1, Duration.ZERO));
            refused("wait must not be negative, not -1.5", () -> locks.lock("a").acquireHold(Duration.ofMillis(-1500)));
        }
        assertEquals(0, kind.opened.get());
    }

    private static void refused(String text, Executable call) {
        assertEquals(text, assertThrows(IllegalArgumentException.class, call).getMessage());
    }

    @Test
    void aNameIsNotNull() {
        try (Locks locks = new Locks(kind)) {
            for (Executable call : List.<Executable>of(() -> locks.fairLock(null), () -> locks.semaphore(null, 1),
                    () -> locks.countDownLatch(null))) {
                assertEquals("key", assertThrows(NullPointerException.class, call).getMessage());
            }
            assertThrows(NullPointerException.class, () -> locks.delayedQueue(null));
        }
    }

    @Test
    void objectsAsTexts() {
        try (Locks locks = new Locks(kind)) {
            assertEquals("Locks[server:6379]", locks.toString());
            assertEquals("DistributedLock[fair lock \"a\"]", locks.fairLock("a").toString());
            assertEquals("DistributedReadWriteLock[write lock \"a\"]", locks.readWriteLock("a").toString());
            assertEquals("DistributedSemaphore[a 3]", locks.semaphore("a", 3).toString());
            assertEquals("DistributedCountDownLatch[a]", locks.countDownLatch("a").toString());
            assertEquals("DelayedQueue[a]", locks.delayedQueue("a").toString());
        }
        assertEquals("LockOptions[lease 60 s, fenced, 2 replicas in 0.05 s]",
                OPTIONS.fenced().withReplicas(2, Duration.ofMillis(50)).toString());
        assertEquals("ConsumeOptions[timeout 60 s, 5 tries, backoff 1 s]", ConsumeOptions.DEFAULT.toString());
    }

    @Test
    void aWriterMayReadAndKeepReading() {
        try (Locks locks = new Locks(kind)) {
            DistributedReadWriteLock lock = locks.readWriteLock("a", OPTIONS);
            lock.writeLock().lock();
            lock.readLock().lock();
            lock.writeLock().unlock();
            assertFalse(lock.writeLock().isHeldByCurrentThread());
            assertTrue(lock.readLock().isHeldByCurrentThread());
            lock.readLock().unlock();
            assertEquals(
                    List.of("LOCK.RWWRITE a PX 60000 BLOCK 30000 ONCE", "LOCK.RWREAD a PX 60000 BLOCK 30000 ONCE",
                            "LOCK.RELEASE a WRITE", "LOCK.RELEASE a READ"),
                    kind.texts());
            assertEquals(1, kind.received().stream().map(FakeWire.Received::owner).distinct().count());
        }
    }

    @Test
    void permitsAreReleasedOldestFirst() throws Exception {
        AtomicInteger releases = new AtomicInteger();
        FakeWire kind = new FakeWire((received, line) -> received.name().equals("RELEASE") && releases.incrementAndGet() == 1
                ? Long.valueOf(2) // of 3
                : FakeWire.success(received));
        try (Locks locks = new Locks(kind)) {
            DistributedSemaphore semaphore = locks.semaphore("a", 5, OPTIONS);
            semaphore.acquire(3);
            assertTrue(semaphore.tryAcquire());
            semaphore.release();
            semaphore.release(3);
            assertThrows(NotHeldException.class, semaphore::release);
        }
        assertEquals(
                List.of("LOCK.RELEASE a PERMITS 1", "LOCK.RELEASE a PERMITS 2", "LOCK.RELEASE a PERMITS 1"),
                kind.texts().subList(2, 5));
        List<FakeWire.Received> released = kind.named("RELEASE");
        assertEquals(released.get(0).owner(), released.get(1).owner());
        assertFalse(released.get(1).owner().equals(released.get(2).owner()));
    }

    @Test
    void errorsHaveTypes() {
        AtomicInteger next = new AtomicInteger();
        List<String> errors = List.of("DEADLOCK a waits for b", "NOREPLICAS too few", "OOM no memory", "NOTHELD no");
        FakeWire wire = new FakeWire((received, line) -> {
            throw new ServerException(errors.get(next.getAndIncrement()));
        });
        try (Locks locks = new Locks(wire)) {
            DistributedLock lock = locks.multiLock(List.of("a", "b"));
            assertEquals("multi-key lock \"a\", \"b\": DEADLOCK a waits for b",
                    assertThrows(LockException.Deadlock.class, lock::lock).getMessage());
            assertEquals("multi-key lock \"a\", \"b\": NOREPLICAS too few",
                    assertThrows(LockException.NoReplicas.class, lock::lock).getMessage());
            LockException refused = assertThrows(LockException.class, lock::lock);
            assertEquals("multi-key lock \"a\", \"b\": OOM no memory", refused.getMessage());
            assertEquals("OOM", refused.code());
            NotHeldException lost = assertThrows(NotHeldException.class, lock::lock);
            assertEquals("multi-key lock \"a\", \"b\" is not held", lost.getMessage());
            assertEquals(List.of("a", "b"), lost.keys());
        }
    }

    @Test
    void theBodysFailureIsNotMreceived() {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RELEASE")) {
                throw new ServerException("NOTHELD the owner holds no such lock");
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            ArithmeticException e = assertThrows(ArithmeticException.class, () -> {
                try (Hold hold = locks.lock("a").acquireHold()) {
                    throw new ArithmeticException(hold.key());
                }
            });
            assertInstanceOf(NotHeldException.class, e.getSuppressed()[0]);
            assertThrows(NotHeldException.class, () -> locks.lock("a").acquireHold().close());
        }
    }

    @Test
    void notInTime() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> null);
        try (Locks locks = new Locks(wire)) {
            assertFalse(locks.lock("a").tryLock());
            assertFalse(locks.lock("a").tryLock(20, TimeUnit.MILLISECONDS));
            NotAcquiredException e =
                    assertThrows(NotAcquiredException.class, () -> locks.fairLock("a").acquireHold(Duration.ofMillis(1)));
            assertEquals("fair lock \"a\" was not acquired within 0.001 s", e.getMessage());
            assertInstanceOf(TimeoutException.class, e);
            assertFalse(locks.semaphore("a", 1, OPTIONS).tryAcquire(1, 1, TimeUnit.MILLISECONDS));
            assertEquals(List.of(), wire.named("CANCEL"), "each request was answered: nothing is left to cancel");
        }
    }

    @Test
    void theHoldersAreNamed() throws Exception {
        List<Object> holders = new ArrayList<>();
        FakeWire wire = new FakeWire((received, line) ->
                received.name().equals("INFO") ? List.of("mode", "exclusive", "holders", List.copyOf(holders)) : null);
        try (Locks locks = new Locks(wire)) {
            for (String text : List.of("", ": held by h1", ": held by h1 and h2", ": held by h1, h2 and 1 other")) {
                String message = assertThrows(NotAcquiredException.class, () -> locks.lock("a").acquireHold(Duration.ZERO)).getMessage();
                assertEquals("lock \"a\" was not acquired" + text, message);
                holders.add(List.of("owner", "h" + (holders.size() + 1), "pttl", 7L));
            }
            assertEquals(List.of("h1", "h2", "h3", "h4"),
                    assertThrows(NotAcquiredException.class, () -> locks.lock("a").acquireHold(Duration.ZERO)).holders());
        }
    }

    @Test
    void aSecondReleaseIsRefused() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a").acquireHold();
            hold.release();
            hold.close();
            assertEquals("lock \"a\" is not held: it was released before",
                    assertThrows(NotHeldException.class, hold::release).getMessage());
            assertEquals(1, wire.named("RELEASE").size());
        }
    }

    @Test
    void aMissingModuleIsNamed() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            throw new ServerException("ERR unknown command 'LOCK.ACQUIRE', with args beginning with: ");
        });
        try (Locks locks = new Locks(wire)) {
            DistributedLock lock = locks.readWriteLock("a").readLock();
            for (Executable call : List.<Executable>of(lock::lock, lock::info, lock::isLocked, lock::forceUnlock)) {
                missing("read lock \"a\"", call);
            }
            missing("latch \"a\"", locks.countDownLatch("a")::await);
            missing("latch \"a\"", locks.countDownLatch("a")::countDown);
            missing("delayed queue \"a\"", locks.delayedQueue("a")::list);
            missing("delayed queue \"a\"", () -> locks.delayedQueue("a").consume(job -> {}));
        }
    }

    private static void missing(String named, Executable call) {
        LockException e = assertThrows(LockException.ModuleMissing.class, call);
        assertEquals(named + ": unknown command: is lock.so loaded on server:6379?", e.getMessage());
        assertEquals("ERR", e.code());
    }

    @Test
    void aTransientErrorIsNamedOnce() {
        FakeWire wire = new FakeWire((received, line) -> {
            throw new ServerException("CLUSTERDOWN no");
        });
        try (Locks locks = new Locks(wire)) {
            assertEquals("lock \"a\": CLUSTERDOWN no",
                    assertThrows(LockException.class, locks.lock("a")::tryLock).getMessage());
            assertEquals("lock \"a\" was not acquired within 0.1 s: CLUSTERDOWN no (server:6379)",
                    assertThrows(NotAcquiredException.class, () -> locks.lock("a").acquireHold(Duration.ofMillis(100)))
                            .getMessage());
        }
    }

    @Test
    void closingReleasesWhatIsHeld() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        Locks locks = new Locks(wire);
        Hold hold = locks.lock("a").acquireHold();
        locks.lock("b").lock();
        locks.close();
        locks.close();
        assertEquals(2, wire.named("RELEASE").size());
        assertThrows(NotHeldException.class, hold::release);
        assertThrows(NotHeldException.class, locks.lock("b")::unlock);
        for (Executable call : List.<Executable>of(locks.lock("a")::tryLock, locks.lock("a")::info)) {
            assertEquals("lock \"a\": these Locks are closed",
                    assertThrows(LockException.Closed.class, call).getMessage());
        }
        assertEquals("latch \"a\": these Locks are closed",
                assertThrows(LockException.Closed.class, locks.countDownLatch("a")::await).getMessage());
        assertEquals("delayed queue \"a\": these Locks are closed",
                assertThrows(LockException.Closed.class, () -> locks.delayedQueue("a").consume(job -> {})).getMessage());
    }

    @Test
    void aForgottenHoldIsReleasedAndForgottenLocksLeaveNoThread() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        forget(wire);
        while (wire.named("RELEASE").isEmpty() || threads() > 0) {
            System.gc();
            Thread.sleep(10);
        }
    }

    private static void forget(FakeWire wire) throws InterruptedException {
        new Locks(wire).lock("a").acquireHold();
        assertTrue(threads() > 0);
    }

    private static long threads() {
        return Thread.getAllStackTraces().keySet().stream().filter(one -> one.getName().equals("lock-so-clock")).count();
    }

    @Test
    void closingEndsAWait() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("ACQUIRE")) {
                line.blockUntil(new CountDownLatch(1));
            }
            return 1L;
        });
        Locks locks = new Locks(wire);
        AtomicReference<Throwable> end = new AtomicReference<>();
        Thread waiter = new Thread(locks.lock("a")::lock);
        waiter.setUncaughtExceptionHandler((thread, e) -> end.set(e));
        waiter.start();
        wire.await("ACQUIRE", 1);
        locks.close();
        waiter.join();
        assertInstanceOf(LockException.Closed.class, end.get());
        wire.await("CANCEL", 1);
        assertEquals(wire.named("ACQUIRE").get(0).owner(), wire.named("CANCEL").get(0).owner());
    }
}
