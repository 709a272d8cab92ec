package so.lock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import so.lock.internal.ServerException;

/** Locks that consist of locks of several servers, or of several slots. */
@Timeout(60)
class CombinedTest {
    private static final LockOptions KEPT = LockOptions.DEFAULT.withLease(Duration.ofSeconds(60)).withoutRenewal();

    private final List<String> texts = Collections.synchronizedList(new ArrayList<>());

    /** A server that is called by this name. */
    private FakeWire server(String name, FakeWire.Server replies) {
        FakeWire wire = new FakeWire((received, line) -> {
            if (!received.name().equals("WATCH")) {
                texts.add(name + " " + received.name());
            }
            return replies.reply(received, line);
        });
        wire.name = name;
        return wire;
    }

    private FakeWire server(String name) {
        return server(name, (received, line) -> FakeWire.success(received));
    }

    @Test
    void theOrderIsThatOfTheServersNames() throws Exception {
        try (Locks a = new Locks(server("a")); Locks b = new Locks(server("b"))) {
            DistributedLock lock = Locks.multiLock(
                    b.lock("k", KEPT), a.readWriteLock("z", KEPT).writeLock(), a.semaphore("y", 3, KEPT).asLock(2));
            Hold hold = lock.acquireHold(Duration.ZERO);
            assertEquals(List.of("a SEMAPHORE", "a RWWRITE", "b ACQUIRE"), texts);
            assertEquals(List.of("y", "z", "k"), hold.keys());
            assertEquals(hold.holds().get(0).owner(), hold.owner());
            assertTrue(hold.token().isEmpty());
            hold.renew(Duration.ofSeconds(5));
            assertThrows(IllegalArgumentException.class, () -> hold.guard("PING"));
            texts.clear();
            hold.release();
            assertEquals(List.of("b RELEASE", "a RELEASE", "a RELEASE"), texts);
            assertThrows(NotHeldException.class, hold::release);
            assertThrows(NotHeldException.class, hold::renew);
        }
    }

    @Test
    void aThreadThatReadsDoesNotEnterToWrite() {
        try (Locks a = new Locks(server("a")); Locks b = new Locks(server("b"))) {
            DistributedReadWriteLock page = a.readWriteLock("page");
            Locks.multiLock(page.readLock(), b.lock("k")).lock();
            assertTrue(Locks.multiLock(page.writeLock(), b.lock("k")).tryLock());
            assertEquals(List.of("a RWREAD", "b ACQUIRE", "a RWWRITE", "b ACQUIRE"), texts);
        }
    }

    @Test
    void aThreadEntersAgain() {
        try (Locks a = new Locks(server("a")); Locks b = new Locks(server("b"))) {
            Locks.multiLock(a.lock("k"), b.lock("k")).lock();
            DistributedLock again = Locks.multiLock(b.lock("k"), a.lock("k"));
            assertTrue(again.tryLock());
            again.unlock();
            assertTrue(again.isHeldByCurrentThread());
            again.unlock();
            assertEquals(List.of("a ACQUIRE", "b ACQUIRE", "b RELEASE", "a RELEASE"), texts);
        }
    }

    @Test
    void theKeysOfEachSlotAreAcquiredTogether() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.multiLock(new MultiKeys().read("2/b").write("1/a", "2/c"), KEPT).acquireHold();
            assertEquals(List.of("LOCK.MACQUIRE 1 1/a MODES WRITE PX 60000 BLOCK 30000 ONCE",
                    "LOCK.MACQUIRE 2 2/b 2/c MODES READ WRITE PX 60000 BLOCK 30000 ONCE"), wire.texts());
            hold.release();
        }
    }

    @Test
    void whatWasAcquiredIsReleasedIfTheNextOneIsNot() throws Exception {
        FakeWire.Server held = (received, line) -> received.name().equals("ACQUIRE") || received.name().equals("INFO")
                ? null
                : FakeWire.success(received);
        try (Locks a = new Locks(server("a")); Locks b = new Locks(server("b", held))) {
            DistributedLock lock = Locks.multiLock(a.lock("x"), a.lock("y"), b.fairLock("z"), b.lock("zz"));
            assertFalse(lock.tryLock());
            assertEquals(List.of("a ACQUIRE", "a ACQUIRE", "b FAIR", "b ACQUIRE", "b RELEASE", "a RELEASE", "a RELEASE"), texts);
            NotAcquiredException e = assertThrows(NotAcquiredException.class, () -> lock.acquireHold(Duration.ofMillis(20)));
            assertEquals("lock \"zz\" was not acquired within 0.02 s", e.getMessage());
        }
    }

    @Test
    void whatWasAcquiredIsReleasedAlsoIfTheTimeHasPassed() throws Exception {
        FakeWire first = server("a");
        FakeWire second = server("b", (received, line) -> {
            if (received.words().get(1).equals("refused")) {
                throw new ServerException("WRONGTYPE it is no lock");
            }
            return FakeWire.success(received);
        });
        try (Locks a = new Locks(first); Locks b = new Locks(second)) {
            Locks.multiLock(a.lock("k", KEPT), b.lock("k", KEPT)).acquireHold().release(); // connects
            Target target = Locks.multiLock(a.lock("k", KEPT), b.lock("refused", KEPT)).target();
            for (int i = 0; i < 100; i++) {
                Attempt late = new Attempt(0, System.nanoTime() - TimeUnit.SECONDS.toNanos(1), true, null, true, false);
                assertThrows(LockException.class, () -> target.acquire(late));
                Conditions.await(a.holdings::isEmpty);
            }
            assertEquals(101, first.named("RELEASE").size());
        }
    }

    @Test
    void aServerWithoutANameIsAnError() {
        FakeWire wire = server("a");
        wire.name = null;
        try (Locks a = new Locks(wire); Locks b = new Locks(server("b"))) {
            assertThrows(IllegalStateException.class, Locks.multiLock(a.lock("k"), b.lock("k"))::tryLock);
        }
        assertEquals(List.of(), texts);
    }

    @Test
    void oneThatIsLostWhileALaterOneIsWaitedForIsAcquiredAgain() throws Exception {
        AtomicBoolean lost = new AtomicBoolean();
        CountDownLatch waiting = new CountDownLatch(1);
        AtomicInteger requests = new AtomicInteger();
        FakeWire first = server("a", (received, line) -> {
            if (received.name().equals("RENEW") && waiting.getCount() == 0 && !lost.getAndSet(true)) {
                throw new ServerException("NOTHELD the owner holds no such lock");
            }
            return FakeWire.success(received);
        });
        CountDownLatch cancelled = new CountDownLatch(1);
        FakeWire second = server("b", (received, line) -> {
            if (received.name().equals("ACQUIRE") && requests.getAndIncrement() == 0) {
                waiting.countDown();
                line.blockUntil(cancelled);
                return null;
            } else if (received.name().equals("CANCEL")) {
                cancelled.countDown();
                return 1L;
            }
            return FakeWire.success(received);
        });
        LockOptions renewed = LockOptions.DEFAULT.withLease(Duration.ofSeconds(3));
        try (Locks a = new Locks(first); Locks b = new Locks(second)) {
            Hold hold = Locks.multiLock(a.lock("k", renewed), b.lock("k", renewed)).acquireHold();
            assertTrue(lost.get());
            assertEquals(2, first.named("ACQUIRE").size());
            assertEquals(2, second.named("ACQUIRE").size());
            assertFalse(hold.isLost());
            hold.release();
        }
    }

    @Test
    void aLossIsReportedOnceAndAllOthersAreReleased() throws Exception {
        FakeWire.Server losing = (received, line) -> switch (received.name()) {
            case "WATCH" -> "LOST";
            case "RELEASE" -> throw new ServerException("NOTHELD the owner holds no such lock");
            default -> FakeWire.success(received);
        };
        BlockingQueue<Hold> lost = new LinkedBlockingQueue<>();
        FakeWire good = server("c");
        try (Locks a = new Locks(server("a", losing)); Locks b = new Locks(server("b", losing)); Locks c = new Locks(good)) {
            Hold hold = null;
            while (hold == null) { // it may be lost before it is complete
                try {
                    hold = Locks.multiLock(List.of(a.lock("k"), b.lock("k"), c.lock("k")), lost::add)
                            .acquireHold(Duration.ofMillis(10));
                } catch (NotAcquiredException e) {
                    assertEquals(List.of(), e.holders());
                }
            }
            assertEquals(hold, lost.poll(20, TimeUnit.SECONDS));
            assertTrue(hold.isLost());
            assertThrows(NotHeldException.class, hold::release);
            String owner = hold.holds().get(2).owner();
            assertTrue(good.named("RELEASE").stream().anyMatch(one -> one.owner().equals(owner)));
            assertNull(lost.poll());
        }
    }

    @Test
    void theOthersOfALostOneThatIsForgottenAreReleased() throws Exception {
        CountDownLatch forced = new CountDownLatch(1);
        FakeWire first = server("a", (received, line) -> {
            if (received.name().equals("WATCH")) {
                line.blockUntil(forced);
                return "LOST";
            }
            return FakeWire.success(received);
        });
        FakeWire second = server("b");
        BlockingQueue<Hold> lost = new LinkedBlockingQueue<>();
        try (Locks a = new Locks(first); Locks b = new Locks(second)) {
            Hold hold = Locks.multiLock(List.of(a.lock("k"), b.lock("k")), lost::add).acquireHold();
            forced.countDown();
            assertEquals(hold, lost.poll(20, TimeUnit.SECONDS));
            assertEquals(List.of(), second.named("RELEASE"));
            hold.held.forgotten();
            second.await("RELEASE", 1);
        }
    }

    @Test
    void closingTheLocksOfOneLosesTheHold() throws Exception {
        try (Locks a = new Locks(server("a")); Locks b = new Locks(server("b"))) {
            Hold hold = Locks.multiLock(a.lock("k"), b.lock("k")).acquireHold();
            a.close();
            assertTrue(hold.isLost());
            assertThrows(NotHeldException.class, hold::release);
            assertEquals(List.of("a ACQUIRE", "b ACQUIRE", "a RELEASE", "b RELEASE"), texts);
        }
    }

    @Test
    void aForgottenOneIsReleased() throws Exception {
        FakeWire last = server("b");
        try (Locks a = new Locks(server("a")); Locks b = new Locks(last)) {
            Locks.multiLock(a.lock("k"), b.lock("k")).acquireHold();
            while (!texts.contains("a RELEASE")) {
                System.gc();
                Thread.sleep(10);
            }
            last.await("RELEASE", 1);
        }
    }

    @Test
    void itsPartsAreInspectedAndForced() {
        FakeWire.Server free = (received, line) -> received.name().equals("INFO") ? null : Long.valueOf(0);
        try (Locks a = new Locks(server("a", free)); Locks b = new Locks(server("b", (received, line) ->
                received.name().equals("INFO") ? List.of("holders", List.of(List.of("owner", "me", "holds", 1L))) : Long.valueOf(1)))) {
            DistributedLock lock = Locks.multiLock(a.lock("k"), b.lock("k"));
            assertTrue(lock.isLocked());
            assertEquals("me", lock.info().holders().get(0).owner());
            assertTrue(lock.forceUnlock());
            assertEquals(2, texts.stream().filter(text -> text.endsWith("FORCE")).count());
        }
    }

    @Test
    void invalidMembersAreRefused() {
        try (Locks a = new Locks(server("a"))) {
            assertEquals("locks must not be empty",
                    assertThrows(IllegalArgumentException.class, () -> Locks.multiLock()).getMessage());
            assertEquals("locks: \"k\" is in two of them", assertThrows(IllegalArgumentException.class, () ->
                    Locks.multiLock(a.lock("k"), a.multiLock(List.of("j", "k")))).getMessage());
            assertThrows(IllegalArgumentException.class, () ->
                    Locks.multiLock(a.lock("k", KEPT.inSession())).acquireHold().renew(Duration.ofSeconds(1)));
        }
        assertEquals(List.of("a ACQUIRE", "a RELEASE"), texts);
    }
}
