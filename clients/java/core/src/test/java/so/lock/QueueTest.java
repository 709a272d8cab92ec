package so.lock;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/** Delayed queues and their consumers, with a server in memory. */
@Timeout(60)
class QueueTest {
    private static final ConsumeOptions OPTIONS =
            ConsumeOptions.DEFAULT.withMaxTries(2).withBackoff(Duration.ofMillis(10));

    /** The lists; of the pending elements only those without a delay are delivered. */
    private final Map<String, List<String>> lists = new TreeMap<>();
    private final Map<String, String> pending = new TreeMap<>();
    private final List<String> jobs = new ArrayList<>();
    private final FakeWire wire = new FakeWire((received, line) -> reply(received.words()));

    private List<String> list(String name) {
        return lists.computeIfAbsent(name, key -> new ArrayList<>());
    }

    private Object reply(List<String> words) {
        synchronized (lists) {
            return switch (words.get(0)) {
                case "BLMOVE" -> list(words.get(1)).isEmpty() ? nothing() : move(words.get(1), words.get(2));
                case "LRANGE" -> List.copyOf(list(words.get(1)));
                case "LREM" -> list(words.get(1)).remove(words.get(3)) ? 1L : 0L;
                case "RPUSH" -> add(words.get(1), words.get(2));
                case "DELAY.CANCEL" -> pending.remove(words.get(2)) == null ? 0L : 1L;
                case "DELAY.PUSH" -> push(words.get(1), words.get(2), words.get(3), words.get(4));
                default -> throw new AssertionError(words);
            };
        }
    }

    private String move(String from, String to) {
        String value = list(from).remove(0);
        add(to, value);
        return value;
    }

    private static Object nothing() {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10)); // shorter than a second
        return null;
    }

    private Long add(String list, String value) {
        list(list).add(value);
        return (long) list(list).size();
    }

    private String push(String list, String id, String ms, String value) {
        pending.put(id, value);
        if (ms.equals("0") || ms.equals("10")) { // the pause after the first failure
            add(list, pending.remove(id));
        }
        return id;
    }

    /** Consumes until this number of jobs has been handled. */
    private void consume(FakeWire server, int count, DelayedQueue.Handler handler) {
        consume(server, OPTIONS, count, handler);
    }

    private void consume(FakeWire server, ConsumeOptions options, int count, DelayedQueue.Handler handler) {
        try (Locks locks = new Locks(server)) {
            AtomicInteger handled = new AtomicInteger();
            assertThrows(InterruptedException.class, () -> locks.delayedQueue("q").consume(job -> {
                jobs.add(job.value() + " " + job.tries());
                if (handled.incrementAndGet() == count) {
                    Thread.currentThread().interrupt();
                }
                handler.handle(job);
            }, options));
        }
        assertFalse(Thread.interrupted());
    }

    private static void succeed(DelayedQueue.Job job) {
        assertTrue(job.tries() > 0);
    }

    private void assertOnlyPending(int count) {
        assertEquals(count, pending.size());
        assertTrue(lists.values().stream().allMatch(List::isEmpty), lists.toString());
    }

    @Test
    void aJobThatFailsIsTriedAgainAndThenPutAside() {
        list("q").addAll(List.of("bad", "good"));
        consume(wire, 3, job -> {
            if (job.value().equals("bad")) {
                throw new IllegalArgumentException("it is bad");
            }
        });
        assertEquals(List.of("bad 1", "good 1", "bad 2"), jobs);
        assertEquals(List.of("lock-so:2:bad"), List.copyOf(pending.values()), "after the second failure it waits for 20 ms");
        list("q").addAll(pending.values());
        pending.clear();
        list("q").add("good");
        consume(wire, 1, QueueTest::succeed);
        assertEquals(List.of("bad"), list("{q}:failed"));
        list("{q}:failed").clear();
        assertOnlyPending(0);
    }

    @Test
    void theListsAreInOneSlot() {
        for (String[] names : new String[][] {{"a{b}c", "a{b}c"}, {"a{}c", "{a{}c}"}, {"a{b", "{a{b}"}, {"é", "{Ã©}"}}) {
            Map<String, List<String>> used = new TreeMap<>();
            FakeWire server = new FakeWire((received, line) -> {
                if (received.name().equals("LRANGE")) {
                    used.put(received.words().get(1), List.of());
                    throw new ServerException("WRONGTYPE it is no list");
                }
                return null;
            });
            try (Locks locks = new Locks(server)) {
                assertEquals("WRONGTYPE", assertThrows(LockException.class, () ->
                        locks.delayedQueue(names[0]).consume(QueueTest::succeed)).code());
            }
            assertEquals(List.of(names[1] + ":taken"), List.copyOf(used.keySet()));
        }
    }

    @Test
    void whatADeadConsumerHasLeftIsDeliveredWithoutAnotherTry() {
        list("{q}:taken").addAll(List.of("a", "lock-so:1:b"));
        consume(wire, 2, QueueTest::succeed);
        assertEquals(List.of("a 1", "b 2"), jobs);
        assertOnlyPending(0);
    }

    @Test
    void anElementThatAnotherConsumerHasRemovedIsNotRun() {
        list("q").addAll(List.of("a", "b"));
        AtomicBoolean first = new AtomicBoolean(true);
        FakeWire server = new FakeWire((received, line) -> {
            boolean removed = received.name().equals("LREM") && first.getAndSet(false);
            if (removed) {
                reply(received.words());
            }
            return reply(received.words());
        });
        consume(server, 1, QueueTest::succeed);
        assertEquals(List.of("b 1"), jobs);
        assertOnlyPending(0);
    }

    @Test
    void aRemovalWhoseReplyIsLostCounts() {
        list("q").add("a");
        AtomicBoolean first = new AtomicBoolean(true);
        FakeWire server = new FakeWire((received, line) -> {
            Object reply = reply(received.words());
            if (received.name().equals("LREM") && first.getAndSet(false)) {
                throw FakeWire.lost();
            }
            return reply;
        });
        consume(server, 1, QueueTest::succeed);
        assertEquals(List.of("a 1"), jobs);
        assertOnlyPending(0);
    }

    @Test
    void aRemovalIsNotRepeatedBecauseAnotherConsumerMayHaveTakenAnEqualElement() {
        list("q").add("a");
        AtomicBoolean first = new AtomicBoolean(true);
        FakeWire server = new FakeWire((received, line) -> {
            Object reply = reply(received.words());
            if (received.name().equals("LREM") && first.getAndSet(false)) {
                add("{q}:taken", "a");
                throw FakeWire.lost();
            }
            return reply;
        });
        consume(server, 1, QueueTest::succeed);
        assertEquals(List.of("a 1"), jobs);
        assertEquals(List.of("a"), list("{q}:taken"), "that of the other consumer");
    }

    @Test
    void anOutageWhileAJobIsPutAsideDoesNotEndTheConsumer() {
        list("q").addAll(List.of("lock-so:2:bad", "good"));
        FakeWire server = new FakeWire((received, line) -> {
            if (received.name().equals("RPUSH")) {
                throw FakeWire.lost();
            }
            return reply(received.words());
        });
        consume(server, OPTIONS.withTimeout(Duration.ofMillis(300)), 1, QueueTest::succeed);
        assertEquals(List.of("good 1"), jobs);
        assertEquals(List.of("lock-so:3:bad"), List.copyOf(pending.values()), "the server delivers it again");
    }

    @Test
    void closingEndsAPause() throws Exception {
        list("q").add("a");
        FakeWire server = new FakeWire((received, line) -> {
            if (received.name().equals("DELAY.PUSH")) {
                throw new ServerException("OOM command not allowed");
            }
            return reply(received.words());
        });
        Locks locks = new Locks(server);
        Thread consumer = new Thread(() -> assertThrows(LockException.Closed.class, () ->
                locks.delayedQueue("q").consume(QueueTest::succeed, OPTIONS.withBackoff(Duration.ofDays(1)))));
        consumer.start();
        server.await("DELAY.PUSH", 1);
        locks.close();
        consumer.join(20_000);
        assertFalse(consumer.isAlive());
    }

    @Test
    void aRefusedClaimIsRepeatedBySweeping() {
        list("q").add("a");
        AtomicBoolean first = new AtomicBoolean(true);
        FakeWire server = new FakeWire((received, line) -> {
            if (received.name().equals("DELAY.PUSH") && first.getAndSet(false)) {
                throw new ServerException("OOM command not allowed");
            }
            return reply(received.words());
        });
        consume(server, 1, QueueTest::succeed);
        assertEquals(List.of("a 1"), jobs);
        assertOnlyPending(0);
    }

    @Test
    void aHandlerThatIsInterruptedGivesItsJobBack() {
        list("q").add("a");
        consume(wire, 1, job -> {
            throw new InterruptedException();
        });
        assertEquals(List.of("lock-so:0:a"), list("q"));
        list("q").clear();
        assertOnlyPending(0);
    }

    @Test
    void anElementThatIsTakenWhenTheThreadIsInterruptedIsGivenBack() {
        list("q").add("a");
        FakeWire server = new FakeWire((received, line) -> {
            if (received.name().equals("BLMOVE")) {
                received.thread().interrupt();
            }
            return reply(received.words());
        });
        try (Locks locks = new Locks(server)) {
            assertThrows(InterruptedException.class, () -> locks.delayedQueue("q").consume(QueueTest::succeed));
        }
        assertEquals(List.of("lock-so:0:a"), list("q"));
        list("q").clear();
        assertOnlyPending(0);
    }

    @Test
    void closingEndsAConsumer() throws Exception {
        CountDownLatch handling = new CountDownLatch(1);
        list("q").add("a");
        AtomicReference<Throwable> end = new AtomicReference<>();
        Locks locks = new Locks(wire);
        Thread consumer = new Thread(() -> {
            try {
                locks.delayedQueue("q").consume(job -> handling.countDown());
            } catch (InterruptedException | RuntimeException e) {
                end.set(e);
            }
        });
        consumer.start();
        handling.await();
        locks.close();
        consumer.join();
        assertEquals(LockException.Closed.class, end.get().getClass());
        assertThrows(LockException.Closed.class, () -> locks.delayedQueue("q").list());
    }

    @Test
    void withoutAnyConnectionItEndsWithTheLibrarysException() {
        FakeWire server = new FakeWire((received, line) -> null);
        server.opening = node -> {
            throw FakeWire.lost();
        };
        try (Locks locks = new Locks(server)) {
            locks.setConnectTimeout(Duration.ofMillis(100));
            assertThrows(IllegalStateException.class, () -> locks.delayedQueue("q").consume(QueueTest::succeed));
        }
    }

    @Test
    void pushListAndCancel() {
        List<Boolean> lost = new ArrayList<>();
        FakeWire server = new FakeWire((received, line) -> {
            if (received.name().equals("DELAY.LIST")) {
                return List.of(List.of("Ã©", 1500L, "\u00ff"));
            }
            lost.add(true);
            if (lost.size() == 1 || lost.size() == 2) {
                throw FakeWire.lost();
            }
            return received.name().equals("DELAY.PUSH") ? received.words().get(2) : Long.valueOf(1);
        });
        try (Locks locks = new Locks(server)) {
            DelayedQueue queue = locks.delayedQueue("é");
            assertThrows(IllegalStateException.class, () -> queue.push("v", Duration.ZERO));
            assertEquals("é", queue.push("v", Duration.ofSeconds(2), "é"), "it is sent again");
            assertTrue(queue.cancel("é"));
            assertEquals("é", queue.list(5).get(0).id());
            assertEquals(Duration.ofMillis(1500), queue.list().get(0).left());
            assertArrayEquals(new byte[] {(byte) 0xff}, queue.list().get(0).bytes());
            assertThrows(IllegalArgumentException.class, () -> queue.push("v", Duration.ofMillis(-1)));
            assertThrows(IllegalArgumentException.class, () -> queue.push("v", Duration.ZERO, ""));
            assertThrows(IllegalArgumentException.class, () -> queue.push("lock-so:1:v", Duration.ZERO));
            assertThrows(IllegalArgumentException.class, () -> queue.list(-1));
            assertThrows(IllegalArgumentException.class, () -> OPTIONS.withMaxTries(0));
            assertThrows(IllegalArgumentException.class, () -> OPTIONS.withTimeout(Duration.ZERO));
        }
        assertEquals(List.of("DELAY.PUSH Ã© * 0 v", "DELAY.PUSH Ã© Ã© 2000 v", "DELAY.PUSH Ã© Ã© 2000 v", "DELAY.CANCEL Ã© Ã©",
                "DELAY.LIST Ã© COUNT 5", "DELAY.LIST Ã©", "DELAY.LIST Ã©"),
                server.received().stream().map(FakeWire.Received::text).toList());
    }

    @Test
    void aLatchIsSetAndCountedDown() throws Exception {
        AtomicInteger waits = new AtomicInteger();
        FakeWire server = new FakeWire((received, line) -> switch (received.name()) {
            case "LATCH.WAIT" -> firstLost(waits);
            case "LATCH.DOWN" -> throw FakeWire.lost();
            default -> received.name().equals("GET") ? "-3" : "OK";
        });
        try (Locks locks = new Locks(server)) {
            DistributedCountDownLatch latch = locks.countDownLatch("a");
            latch.set(2, Duration.ofSeconds(1));
            assertThrows(IllegalStateException.class, latch::countDown);
            assertEquals(0, latch.getCount());
            latch.await();
            assertFalse(latch.await(20, TimeUnit.MILLISECONDS));
            assertFalse(latch.await(-1, TimeUnit.SECONDS));
            assertThrows(IllegalArgumentException.class, () -> latch.set(-1));
            assertThrows(IllegalArgumentException.class, () -> latch.countDown(0));
            assertThrows(IllegalArgumentException.class, () -> latch.await(Duration.ofSeconds(-1)));
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, latch::await);
        }
        assertEquals(List.of("LATCH.SET a 2 PX 1000", "LATCH.DOWN a 1", "GET a", "LATCH.WAIT a BLOCK 30000",
                "LATCH.WAIT a BLOCK 30000"), server.received().stream().map(FakeWire.Received::text).toList().subList(0, 5));
    }

    /** The first wait loses its connection, the second one finds an open latch, and the others a closed one. */
    private static Object firstLost(AtomicInteger waits) throws LinkException {
        return switch (waits.incrementAndGet()) {
            case 1 -> throw FakeWire.lost();
            case 2 -> 1L;
            default -> nothing();
        };
    }

    @Test
    void anInterruptEndsAWaitForALatch() throws Exception {
        FakeWire server = new FakeWire((received, line) -> {
            line.blockUntil(new CountDownLatch(1));
            return null;
        });
        AtomicReference<Throwable> end = new AtomicReference<>();
        try (Locks locks = new Locks(server)) {
            Thread waiter = new Thread(() -> {
                try {
                    locks.countDownLatch("a").await();
                } catch (InterruptedException | RuntimeException e) {
                    end.set(e);
                }
            });
            waiter.start();
            server.await("LATCH.WAIT", 1);
            waiter.interrupt();
            waiter.join();
        }
        assertEquals(InterruptedException.class, end.get().getClass());
    }
}
