package so.lock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/** Locks on a majority of servers in memory. */
@Timeout(60)
class RedLockTest {
    private static final LockOptions BRIEF = LockOptions.DEFAULT.withLease(Duration.ofSeconds(2));
    private static final LockOptions KEPT = LockOptions.DEFAULT.withLease(Duration.ofSeconds(60));

    /** A server with one lock, which can fail in several ways. */
    private static final class Memory {
        final FakeWire wire = new FakeWire((received, line) -> reply(received.words(), line));
        final int number;
        volatile String run;
        volatile String role = "master";
        volatile String node;
        volatile String nodes = "";
        volatile String error; // of all commands for the lock
        volatile boolean away;
        volatile CountDownLatch delay = new CountDownLatch(0); // of a request for the lock
        volatile CountDownLatch stall = new CountDownLatch(0); // of a renewal
        volatile String unanswered; // the command whose next reply is lost
        private String holder;

        Memory(int number) {
            this.number = number;
            this.run = "run" + number;
        }

        synchronized String holder() {
            return holder;
        }

        synchronized void hold(String owner) {
            holder = owner;
        }

        private Object reply(List<String> words, FakeWire.FakeLine line) throws LinkException, ServerException {
            if (away) {
                throw FakeWire.lost();
            }
            switch (words.get(0)) {
                case "HELLO":
                    return List.of("server", "redis", "mode", node == null ? "standalone" : "cluster", "role", role);
                case "INFO":
                    if (run == null) {
                        throw new ServerException("NOPERM no INFO");
                    }
                    return "# Server\r\nrun_id:" + run + "\r\n";
                case "CLUSTER":
                    return words.get(1).equals("MYID") ? node : nodes;
                case "LOCK.ACQUIRE":
                    line.blockUntil(delay);
                    break;
                case "LOCK.RENEW":
                    line.blockUntil(stall);
                    break;
                default:
                    break;
            }
            if (error != null) {
                throw new ServerException(error);
            }
            Object reply = lock(words);
            if (words.get(0).equals(unanswered)) {
                unanswered = null;
                throw FakeWire.lost();
            }
            return reply;
        }

        private synchronized Object lock(List<String> words) throws ServerException {
            boolean held = words.size() > 2 && words.get(2).equals(holder);
            switch (words.get(0)) {
                case "LOCK.ACQUIRE":
                    holder = holder == null ? words.get(2) : holder;
                    return holder.equals(words.get(2)) ? Long.valueOf(number) : null;
                case "LOCK.INFO":
                    return holder == null ? null : List.of("holders", List.of(List.of("owner", holder, "holds", 1L)));
                case "LOCK.FORCE":
                    holder = null;
                    return 1L;
                default:
                    if (!held) {
                        throw new ServerException("NOTHELD the owner holds no such lock");
                    }
                    holder = words.get(0).equals("LOCK.RELEASE") ? null : holder;
                    return 1L;
            }
        }
    }

    private final List<Memory> servers = new ArrayList<>();
    private final List<Locks> all = new ArrayList<>();
    private final BlockingQueue<Hold> lost = new LinkedBlockingQueue<>();

    private RedLock start(int count) {
        IntStream.range(0, count).forEach(i -> {
            servers.add(new Memory(i));
            all.add(new Locks(servers.get(i).wire));
        });
        return RedLock.over(all);
    }

    @AfterEach
    void stop() {
        all.forEach(Locks::close);
    }

    private boolean isFree() {
        return servers.stream().allMatch(server -> server.holder() == null);
    }

    @Test
    void aMajorityIsEnough() throws Exception {
        DistributedLock lock = start(3).lock("k", KEPT);
        servers.get(0).hold("another");
        Hold hold = lock.acquireHold(Duration.ofSeconds(5));
        assertEquals(2, hold.token().getAsLong(), "the largest");
        Conditions.await(() -> hold.owner().equals(servers.get(1).holder()) && hold.owner().equals(servers.get(2).holder()));
        assertTrue(lock.isLocked());
        assertEquals(3, lock.info().holders().size());
        hold.renew(Duration.ofSeconds(90));
        assertTrue(servers.get(1).wire.named("RENEW").get(0).text().endsWith("PX 90000"));
        hold.release();
        assertThrows(NotHeldException.class, hold::release);
        assertThrows(NotHeldException.class, hold::renew);
        assertFalse(lock.isLocked());
        assertTrue(lock.forceUnlock());
        assertTrue(isFree());
    }

    @Test
    void withoutAMajorityNothingIsLeftAndEachRoundHasAnotherOwner() throws Exception {
        DistributedLock lock = start(3).lock("k", KEPT);
        servers.get(0).hold("another");
        servers.get(1).hold("another");
        NotAcquiredException e = assertThrows(NotAcquiredException.class, () -> lock.acquireHold(Duration.ofMillis(500)));
        assertEquals("lock \"k\" was not acquired within 0.5 s: held by another", e.getMessage());
        assertEquals(List.of("another"), e.holders());
        assertFalse(lock.tryLock());
        Conditions.await(() -> servers.get(2).holder() == null);
        List<FakeWire.Received> requests = servers.get(2).wire.named("ACQUIRE");
        assertNotEquals(requests.get(0).owner(), requests.get(1).owner());
        servers.forEach(server -> server.hold(null));
        lock.lock();
        assertTrue(lock.tryLock(), "the thread enters again");
        lock.unlock();
        lock.unlock();
        Conditions.await(this::isFree);
    }

    @Test
    void aMajorityThatRepliesNamesTheHoldersWhateverTheOtherServerDoes() {
        DistributedLock lock = start(3).lock("k", KEPT);
        servers.get(0).hold("another");
        servers.get(1).hold("one more");
        servers.get(2).delay = new CountDownLatch(1); // it is silent
        NotAcquiredException e = assertThrows(NotAcquiredException.class, () -> lock.acquireHold(Duration.ofMillis(300)));
        assertEquals("lock \"k\" was not acquired within 0.3 s: held by another and one more", e.getMessage());
        assertNull(e.getCause());
        servers.get(2).delay.countDown();
        Conditions.await(() -> servers.get(2).holder() == null);
    }

    @Test
    void aServerThatIsLateGetsTheReleaseBehindTheRequest() throws Exception {
        DistributedLock lock = start(3).lock("k", KEPT);
        servers.get(2).delay = new CountDownLatch(1);
        Hold hold = lock.acquireHold(Duration.ofSeconds(5));
        servers.get(2).wire.await("ACQUIRE", 1);
        hold.release();
        assertEquals(List.of(), servers.get(2).wire.named("RELEASE"));
        servers.get(2).delay.countDown();
        servers.get(2).wire.await("RELEASE", 1);
        Conditions.await(this::isFree);
    }

    @Test
    void aServerThatIsAwayDoesNotPreventIt() throws Exception {
        DistributedLock lock = start(3).lock("k", BRIEF.onLost(lost::add));
        servers.get(1).away = true;
        Hold hold = lock.acquireHold(Duration.ofSeconds(10));
        servers.get(2).wire.await("RENEW", 4); // for longer than a lease
        assertFalse(hold.isLost());
        servers.get(2).away = true;
        assertEquals(hold, lost.poll(20, TimeUnit.SECONDS));
        assertTrue(hold.isLost());
        assertThrows(NotHeldException.class, hold::release);
        Conditions.await(() -> servers.get(0).holder() == null);
    }

    @Test
    void aServerThatHasLostItCountsAfterARoundWithAMajorityWithoutIt() throws Exception {
        DistributedLock lock = start(3).lock("k", BRIEF.onLost(lost::add));
        Hold hold = lock.acquireHold(Duration.ofSeconds(10));
        Conditions.await(() -> servers.stream().allMatch(server -> hold.owner().equals(server.holder())));
        for (Memory server : servers) { // one after the other
            server.hold(null);
            Conditions.await(() -> hold.owner().equals(server.holder()));
            int renewals = server.wire.named("RENEW").size();
            server.wire.await("RENEW", renewals + 2);
        }
        assertFalse(hold.isLost());
        servers.get(0).hold(null);
        servers.get(1).hold(null);
        assertEquals(hold, lost.poll(20, TimeUnit.SECONDS));
        assertEquals("lock \"k\" is not held: the server reported its loss",
                assertThrows(NotHeldException.class, hold::release).getMessage());
        Conditions.await(this::isFree);
        assertTrue(lost.isEmpty());
    }

    @Test
    void aServerThatLosesItLateCountsAfterALaterRound() throws Exception {
        DistributedLock lock = start(3).lock("k", KEPT.withoutRenewal());
        Hold hold = held(lock);
        Memory late = servers.get(2);
        late.stall = new CountDownLatch(1);
        hold.renew();
        late.wire.await("RENEW", 1);
        hold.renew(); // its request to the late server is behind that of the first one
        late.hold(null);
        late.stall.countDown();
        late.wire.await("RENEW", 2);
        servers.get(0).hold(null);
        assertThrows(NotHeldException.class, hold::renew, "only one server has held it all the time");
        assertThrows(NotHeldException.class, hold::release);
        Conditions.await(this::isFree);
    }

    @Test
    void aRequestThatIsSentLateCountsAfterALaterRound() throws Exception {
        Hold hold = heldWithALateServer();
        servers.get(0).hold(null);
        assertThrows(NotHeldException.class, hold::renew, "only one server has held it all the time");
        assertThrows(NotHeldException.class, hold::release);
        Conditions.await(this::isFree);
    }

    @Test
    void aRequestThatIsSentLateCountsInTheEnd() throws Exception {
        Hold hold = heldWithALateServer();
        for (int renewals = 1; renewals < 4; renewals++) {
            hold.renew();
            servers.get(2).wire.await("RENEW", renewals);
        }
        servers.get(0).hold(null);
        hold.renew();
        hold.release();
    }

    /** The first request to one server is stalled, so that a later one is sent behind it, too late. */
    private Hold heldWithALateServer() throws Exception {
        Duration lease = Duration.ofSeconds(10); // a server has half a second for its reply
        DistributedLock lock = start(3).lock("k", LockOptions.DEFAULT.withLease(lease).withoutRenewal());
        Memory late = servers.get(2);
        late.delay = new CountDownLatch(1);
        servers.get(0).hold("another");
        CompletableFuture<Void> freed = CompletableFuture.runAsync(() -> {
            Conditions.await(() -> servers.get(0).wire.named("ACQUIRE").size() > 1);
            servers.get(0).hold(null);
        });
        Hold hold = lock.acquireHold(Duration.ofSeconds(20));
        freed.join();
        TimeUnit.MILLISECONDS.sleep(600);
        late.delay.countDown();
        Conditions.await(() -> hold.owner().equals(late.holder()));
        return hold;
    }

    @Test
    void aServerThatRefusesConnectionsCostsNoTime() throws Exception {
        start(3);
        servers.get(2).wire.opening = node -> {
            throw FakeWire.lost();
        };
        long shortest = Long.MAX_VALUE; // on a busy machine one may take longer
        for (int i = 0; i < 3; i++) {
            DistributedLock lock = RedLock.over(all).lock("k", KEPT); // a server has a second for its reply
            long start = System.nanoTime();
            lock.acquireHold(Duration.ofSeconds(5)).release();
            shortest = Math.min(shortest, Conditions.ms(start));
        }
        assertTrue(shortest < 900, shortest + " ms");
        Conditions.await(this::isFree);
    }

    @Test
    void aServerThatEndsWhileItIsHeldCostsNoTime() throws Exception {
        Hold hold = held(start(3).lock("k", KEPT));
        servers.get(2).wire.opening = node -> {
            throw FakeWire.lost();
        };
        servers.get(2).wire.lines().forEach(line -> line.dead = true);
        long start = System.nanoTime();
        hold.release();
        assertTrue(Conditions.ms(start) < 900, "it took " + Conditions.ms(start) + " ms");
        servers.get(2).wire.opening = node -> {};
        Conditions.await(this::isFree);
    }

    @Test
    void aReleaseDoesNotWaitWhereNothingWasRequested() throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        DistributedLock lock = start(3).lock("k", KEPT);
        servers.get(2).wire.opening = node -> Conditions.await(() -> connected.getCount() == 0);
        Hold hold = lock.acquireHold(Duration.ofSeconds(5));
        long start = System.nanoTime();
        hold.release();
        assertTrue(Conditions.ms(start) < 900, "it took " + Conditions.ms(start) + " ms");
        connected.countDown();
        // the next request to that server is behind the connection that was being opened
        try (Hold next = held(lock)) {
            assertEquals(List.of(next.owner()), servers.get(2).wire.named("ACQUIRE").stream()
                    .map(FakeWire.Received::owner).distinct().toList());
        }
    }

    private Hold held(DistributedLock lock) throws Exception {
        Hold hold = lock.acquireHold(Duration.ofSeconds(10));
        Conditions.await(() -> servers.stream().allMatch(server -> hold.owner().equals(server.holder())));
        return hold;
    }

    @Test
    void aStalledServerGetsOnlyTheLastRenewal() throws Exception {
        Hold hold = held(start(3).lock("k", KEPT.withoutRenewal()));
        Memory stalled = servers.get(2);
        stalled.stall = new CountDownLatch(1);
        for (int seconds = 61; seconds < 66; seconds++) {
            hold.renew(Duration.ofSeconds(seconds));
            stalled.wire.await("RENEW", 1);
        }
        stalled.stall.countDown();
        stalled.wire.await("RENEW", 2);
        assertTrue(stalled.wire.named("RENEW").get(1).text().endsWith("PX 65000"));
        hold.release();
    }

    @Test
    void aReleasedLockIsNotRequestedAgain() throws Exception {
        Hold hold = held(start(3).lock("k", KEPT.withoutRenewal()));
        Memory stalled = servers.get(2);
        stalled.stall = new CountDownLatch(1);
        hold.renew();
        stalled.wire.await("RENEW", 1);
        stalled.hold(null);
        hold.release();
        stalled.stall.countDown();
        stalled.wire.await("RELEASE", 1);
        assertEquals(1, stalled.wire.named("ACQUIRE").size());
    }

    @Test
    void aShorterLeaseWithoutAMajorityIsRenewedInTime() throws Exception {
        Hold hold = held(start(3).lock("k", KEPT));
        servers.get(0).away = true;
        servers.get(1).away = true;
        assertThrows(IllegalStateException.class, () -> hold.renew(Duration.ofSeconds(5)));
        servers.forEach(server -> server.away = false);
        servers.get(0).wire.await("RENEW", servers.get(0).wire.named("RENEW").size() + 1);
        assertFalse(hold.isLost());
        hold.release();
    }

    @Test
    void aReleaseThatIsSentAgainIsNoLoss() throws Exception {
        Hold hold = held(start(3).lock("k", KEPT));
        servers.get(0).unanswered = "LOCK.RELEASE";
        servers.get(1).unanswered = "LOCK.RELEASE";
        hold.release();
        Conditions.await(this::isFree);
    }

    @Test
    void aLostOneThatIsForgottenIsReleased() throws Exception {
        Hold hold = held(start(3).lock("k", BRIEF.onLost(lost::add)));
        servers.get(0).hold("another");
        servers.get(1).hold("another");
        assertEquals(hold, lost.poll(20, TimeUnit.SECONDS));
        assertEquals(hold.owner(), servers.get(2).holder());
        hold.held.forgotten();
        Conditions.await(() -> servers.get(2).holder() == null);
    }

    @Test
    void aThreadThatHasEndedIsForgotten() throws Exception {
        start(3);
        List<Locks> others = List.of(all.get(2), all.get(1), all.get(0));
        Thread thread = new Thread(RedLock.over(others).lock("k", BRIEF.onLost(lost::add))::lock);
        thread.start();
        assertNotNull(lost.poll(20, TimeUnit.SECONDS));
        assertTrue(all.stream().allMatch(one -> one.threads.isEmpty()));
    }

    @Test
    void anInterruptedThreadPausesBetweenRounds() throws Exception {
        Thread.currentThread().interrupt();
        long start = System.nanoTime();
        Majority.pause(Attempt.byThread(-1, false));
        assertTrue(Thread.interrupted());
        assertTrue(Conditions.ms(start) >= 20);
    }

    @Test
    void whoWaitsForAnAnswerWaitsForItsListener() throws Exception {
        Round round = new Round(1);
        CompletableFuture<Share.Answer> answer = new CompletableFuture<>();
        CountDownLatch begun = new CountDownLatch(1);
        AtomicBoolean ended = new AtomicBoolean();
        round.expect(0, answer, (same, number, found) -> {
            begun.countDown();
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(100));
            ended.set(true);
        });
        new Thread(() -> answer.complete(new Share.Answer(1L, null, System.nanoTime()))).start();
        begun.await();
        round.await(() -> false, System.nanoTime() + TimeUnit.SECONDS.toNanos(20));
        assertTrue(ended.get());
    }

    @Test
    void noMajorityReplies() {
        DistributedLock lock = start(3).lock("k", BRIEF);
        all.forEach(one -> one.setConnectTimeout(Duration.ofMillis(600)));
        servers.get(0).away = true;
        servers.get(1).away = true;
        assertThrows(IllegalStateException.class, lock::tryLock);
        assertThrows(IllegalStateException.class, lock::lock);
        NotAcquiredException e = assertThrows(NotAcquiredException.class, () -> lock.acquireHold(Duration.ofMillis(300)));
        assertInstanceOf(IllegalStateException.class, e.getCause());
        Conditions.await(() -> servers.get(2).holder() == null);
    }

    @Test
    void aMajorityRefuses() throws Exception {
        DistributedLock lock = start(3).lock("k", BRIEF);
        servers.get(0).error = "WRONGTYPE it is no lock";
        lock.acquireHold(Duration.ofSeconds(5)).release();
        servers.get(1).error = "WRONGTYPE it is no lock";
        LockException refused = assertThrows(LockException.class, () -> lock.acquireHold(Duration.ofSeconds(5)));
        assertEquals("WRONGTYPE", refused.code());
        assertEquals("lock \"k\": WRONGTYPE it is no lock", refused.getMessage());
        Conditions.await(() -> servers.get(2).holder() == null);
    }

    @Test
    void aMissingModuleIsNamed() {
        DistributedLock lock = start(3).lock("k", BRIEF);
        servers.forEach(one -> one.error = "ERR unknown command 'LOCK.ACQUIRE', with args beginning with: ");
        for (Executable call : List.<Executable>of(lock::lock, lock::isLocked, lock::info, lock::forceUnlock)) {
            LockException e = assertThrows(LockException.ModuleMissing.class, call);
            assertEquals("lock \"k\": unknown command: is lock.so loaded on server:6379?", e.getMessage());
        }
    }

    @Test
    void anInterruptEndsAWait() throws Exception {
        DistributedLock lock = start(3).lock("k", KEPT);
        servers.get(0).hold("another");
        servers.get(1).hold("another");
        BlockingQueue<Throwable> ends = new LinkedBlockingQueue<>();
        Thread waiter = new Thread(() -> {
            try {
                lock.lockInterruptibly();
            } catch (InterruptedException | RuntimeException e) {
                ends.add(e);
            }
        });
        waiter.start();
        servers.get(2).wire.await("ACQUIRE", 2);
        waiter.interrupt();
        waiter.join();
        assertInstanceOf(InterruptedException.class, ends.take());
        Conditions.await(() -> servers.get(2).holder() == null);
    }

    @Test
    void closingOneOfTheLocksReleasesIt() throws Exception {
        DistributedLock lock = start(3).lock("k", KEPT);
        Hold hold = lock.acquireHold(Duration.ofSeconds(5));
        all.get(1).close();
        Conditions.await(this::isFree);
        assertThrows(NotHeldException.class, hold::release);
        assertEquals("lock \"k\": these Locks are closed",
                assertThrows(LockException.Closed.class, lock::tryLock).getMessage());
    }

    @Test
    void afterClosingOneOfTheLocksAThreadDoesNotEnterAgain() {
        DistributedLock lock = start(3).lock("k", KEPT);
        lock.lock();
        all.get(1).close();
        Conditions.await(() -> !lock.isHeldByCurrentThread());
        assertThrows(NotHeldException.class, lock::tryLock);
    }

    @Test
    void serversThatDoNotFailIndependently() {
        start(3);
        assertEquals("servers must be at least 3, not 2",
                assertThrows(IllegalArgumentException.class, () -> RedLock.over(all.subList(0, 2))).getMessage());
        servers.get(1).run = "run0";
        refused("are the same server");
        restart();
        servers.get(1).run = null;
        servers.get(2).role = "replica";
        refused("is a replica");
        restart();
        servers.get(1).node = "b";
        servers.get(2).node = "c";
        servers.get(2).nodes = "b 127.0.0.1:1 master\nc 127.0.0.1:2 myself,master\n";
        refused("are nodes of one cluster");
        assertThrows(IllegalArgumentException.class, () -> RedLock.over(all).lock("k", KEPT.inSession()));
        assertThrows(IllegalArgumentException.class, () -> RedLock.over(all).lock("k", KEPT.withReplicas(1, Duration.ofSeconds(1))));
        assertThrows(IllegalArgumentException.class, () -> Locks.multiLock(RedLock.over(all).lock("k")));
        Conditions.await(this::isFree);
    }

    private void restart() {
        stop();
        servers.clear();
        all.clear();
        start(3);
    }

    private void refused(String text) {
        IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () ->
                RedLock.over(all).lock("k", KEPT).acquireHold(Duration.ofSeconds(5)));
        assertTrue(e.getMessage().endsWith(text), e.getMessage());
    }
}
