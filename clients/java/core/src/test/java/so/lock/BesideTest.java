package so.lock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import so.lock.internal.ServerException;

/** What a program can do with a lock besides locking: look at it, take it away, renew it, guard a command. */
@Timeout(60)
class BesideTest {
    private static final LockOptions KEPT = LockOptions.DEFAULT.withLease(Duration.ofSeconds(60)).withoutRenewal();

    private static List<Object> map(Object... words) {
        return Arrays.asList(words);
    }

    @Test
    void theReplyIsReadByTheNamesOfItsFields() {
        Object held = map("later", "holders", "mode", "exclusive",
                "holders", List.of(map("owner", "holds", "mode", "exclusive", "holds", 2L, "pttl", 1500L, "session", null)),
                "waiting", 3L,
                "waiters", List.of(map("owner", "bob", "mode", "write", "fair", 1L, "waited", 20L, "left", null)));
        FakeWire wire = new FakeWire((received, line) -> received.words().get(1).equals("a") ? held : null);
        try (Locks locks = new Locks(wire)) {
            LockInfo info = locks.multiLock(List.of("a", "b")).info();
            assertEquals(List.of(new LockInfo.Holder("a", "holds", "exclusive", 2, Optional.of(Duration.ofMillis(1500)), false)),
                    info.holders());
            assertEquals(3, info.waiting());
            assertEquals(List.of(new LockInfo.Waiter("a", "bob", "write", true, Duration.ofMillis(20), Optional.empty())),
                    info.waiters());
            assertTrue(locks.multiLock(List.of("b", "a")).isLocked());
            assertFalse(locks.semaphore("b", 2).isLocked());
            assertEquals(new LockInfo(List.of(), 0, List.of()), locks.semaphore("b", 2).info());
        }
    }

    @Test
    void everyKeyIsForced() {
        AtomicInteger forced = new AtomicInteger();
        FakeWire wire = new FakeWire((received, line) -> (long) forced.getAndIncrement());
        try (Locks locks = new Locks(wire)) {
            assertTrue(locks.multiLock(List.of("a", "b")).forceUnlock());
            assertEquals(List.of("LOCK.FORCE a", "LOCK.FORCE b"), wire.received().stream().map(FakeWire.Received::text).toList());
            forced.set(0);
            assertFalse(locks.semaphore("a", 2).forceUnlock());
        }
    }

    @Test
    void whatMustNotBeExecutedTwiceIsNotRepeated() throws Exception {
        List<String> repeatable = new ArrayList<>();
        FakeWire wire = new FakeWire((received, line) -> {
            String name = received.name();
            if (name.equals("FORCE") || name.equals("GUARD") || name.equals("INFO") && repeatable.isEmpty()) {
                repeatable.add(name);
                throw FakeWire.lost();
            }
            return name.equals("INFO") ? null : FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            assertFalse(locks.lock("a").isLocked());
            assertThrows(IllegalStateException.class, locks.lock("a")::forceUnlock);
            try (Hold hold = locks.lock("a").acquireHold()) {
                assertThrows(IllegalStateException.class, () -> hold.guard("INCR", "n"));
                assertFalse(hold.isLost());
            }
        }
        assertEquals(List.of(2, 1, 1), List.of(wire.named("INFO").size(), wire.named("FORCE").size(), wire.named("GUARD").size()));
    }

    @Test
    void theProgramRenewsWithAnotherLease() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.multiLock(List.of("a", "b"), KEPT).acquireHold();
            hold.renew(Duration.ofSeconds(5));
            hold.renew();
            hold.release();
            assertThrows(NotHeldException.class, hold::renew);
            assertThrows(NotHeldException.class, () -> hold.guard("PING"));
        }
        assertEquals(List.of("LOCK.MRENEW 2 a b PX 5000", "LOCK.MRENEW 2 a b PX 5000"), wire.texts().subList(1, 3));
    }

    @Test
    void automaticRenewalsUseTheNewLease() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire); Hold hold = locks.lock("a").acquireHold()) {
            hold.renew(Duration.ofMillis(1500));
            wire.await("RENEW", 3);
            assertTrue(wire.named("RENEW").stream().allMatch(one -> one.text().endsWith(" PX 1500")));
            assertFalse(hold.isLost());
        }
    }

    @Test
    void aShorterLeaseCountsFromItsSendingAlsoWithoutAReply() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RENEW")) {
                throw FakeWire.lost();
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            Hold hold = locks.lock("a", KEPT).acquireHold();
            assertThrows(IllegalStateException.class, () -> hold.renew(Duration.ofSeconds(120)));
            assertFalse(hold.isLost(), "a longer one does not count yet, and the first one still does");
            assertThrows(IllegalStateException.class, () -> hold.renew(Duration.ofMillis(300)));
            Conditions.await(hold::isLost);
            assertEquals("lock \"a\" is not held: its lease expired", assertThrows(NotHeldException.class, hold::renew).getMessage());
        }
    }

    @Test
    void aShorterLeaseWithoutAReplyIsRenewedInTime() throws Exception {
        AtomicBoolean away = new AtomicBoolean(true);
        FakeWire wire = new FakeWire((received, line) -> {
            if (received.name().equals("RENEW") && away.get()) {
                throw FakeWire.lost();
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire); Hold hold = locks.lock("a").acquireHold()) {
            assertThrows(IllegalStateException.class, () -> hold.renew(Duration.ofSeconds(6)));
            away.set(false);
            wire.await("RENEW", wire.named("RENEW").size() + 1);
            assertFalse(hold.isLost());
        }
    }

    @Test
    void aSessionIsOnlyChecked() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> FakeWire.success(received));
        try (Locks locks = new Locks(wire); Hold hold = locks.lock("a", KEPT.inSession()).acquireHold()) {
            hold.renew();
            assertEquals("LOCK.RENEW a", wire.texts().get(1));
            assertThrows(IllegalArgumentException.class, () -> hold.renew(Duration.ofSeconds(1)));
            assertThrows(IllegalArgumentException.class, () -> hold.renew(Duration.ZERO));
            assertThrows(IllegalArgumentException.class, hold::guard);
        }
    }

    @Test
    void aLossThatTheServerReportsIsALoss() throws Exception {
        FakeWire wire = new FakeWire((received, line) -> {
            if (List.of("RENEW", "GUARD").contains(received.name())) {
                throw new ServerException("NOTHELD the owner holds no such lock");
            }
            return FakeWire.success(received);
        });
        try (Locks locks = new Locks(wire)) {
            Hold renewed = locks.lock("a", KEPT).acquireHold();
            Hold guarded = locks.lock("a", KEPT).acquireHold();
            assertThrows(NotHeldException.class, renewed::renew);
            assertEquals("lock \"a\" is not held: the server reported its loss",
                    assertThrows(NotHeldException.class, () -> guarded.guard("PING")).getMessage());
            assertTrue(renewed.isLost() && guarded.isLost());
        }
    }

    @Test
    void aThreadThatHoldsItWithoutATokenGetsNone() {
        try (Locks locks = new Locks(new FakeWire((received, line) -> FakeWire.success(received)))) {
            locks.lock("a").lock();
            assertThrows(IllegalArgumentException.class, locks.lock("a", LockOptions.DEFAULT.fenced())::lock);
            assertEquals(1, locks.lock("a").getHoldCount());
            locks.lock("a").unlock();
            locks.lock("a", LockOptions.DEFAULT.fenced()).lock();
            assertTrue(locks.lock("a").tryLock(), "a token is there for those who need none");
        }
    }
}
