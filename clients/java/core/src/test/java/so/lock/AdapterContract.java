package so.lock;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.Timeout;
import so.lock.Connections.Connection;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/** What an adapter must do, tested with a real server; each library has a subclass that connects. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@Timeout(60)
public abstract class AdapterContract {
    private static final int SHORT_MS = 5_000;
    private static final long PATIENCE = TimeUnit.SECONDS.toNanos(30); // a library's first connection may take a while

    protected ServerProcess server;
    private Locks locks;

    /** Locks from a user's client for that port, database and password; null: none. */
    protected abstract Locks connect(int port, int database, String password);

    @BeforeAll
    void start() {
        server = new ServerProcess();
    }

    @AfterAll
    void stop() {
        server.close();
    }

    @BeforeEach
    void open() {
        locks = connect(server.port(), 0, null);
        locks.setConnectTimeout(Duration.ofNanos(PATIENCE));
    }

    @AfterEach
    void nothingIsLeft() throws Exception {
        assertEquals(0L, command("EXISTS", "a", "b"));
        locks.close();
    }

    private Object command(String... words) throws LinkException, ServerException {
        return Call.send(locks.connections, "a", List.of(words), System.nanoTime() + PATIENCE);
    }

    private Connection connection() throws Exception {
        String node = locks.connections.node("a", System.nanoTime() + PATIENCE);
        return locks.connections.take(node, false, System.nanoTime() + PATIENCE);
    }

    private void awaitWaiting(int count) throws LinkException, ServerException {
        while (!((String) command("INFO", "lock")).contains("lock_waiters:" + count)) {
            Thread.onSpinWait();
        }
    }

    @Test
    void replies() throws Exception {
        assertEquals(1L, command("LOCK.ACQUIRE", "a", "me"));
        assertNull(command("LOCK.ACQUIRE", "a", "other"));
        assertEquals(0L, command("LOCK.RELEASE", "a", "me"));
        assertEquals("LOST", command("LOCK.WATCH", "a", "me"));
        assertEquals("é", command("ECHO", "é"));
    }

    @Test
    void errors() throws Exception {
        ServerException e = assertThrows(ServerException.class, () -> command("LOCK.RELEASE", "a", "me"));
        assertEquals("NOTHELD", e.code());
        assertFalse(e.isTransient());
        assertEquals("ERR", assertThrows(ServerException.class, () -> command("NO.SUCH.COMMAND")).code());
        long before = clients();
        for (int i = 0; i < 20; i++) {
            assertThrows(ServerException.class, () -> command("LOCK.RELEASE", "a", "me"));
        }
        assertTrue(clients() <= before, "the connection is used again");
    }

    private long clients() throws Exception {
        return ((String) command("CLIENT", "LIST", "TYPE", "normal")).lines().count();
    }

    @Test
    void noReplyEndsWithTheTimeOut() throws Exception {
        command("LOCK.ACQUIRE", "a", "me");
        Connection connection = connection();
        // If this command arrives late, when the lock is free, it acquires nothing.
        assertThrows(LinkException.class, () -> connection.line.send(50, List.of("LOCK.WATCH", "a", "me", "BLOCK", "0"), StandardCharsets.UTF_8, null));
        locks.connections.drop(connection);
        command("LOCK.RELEASE", "a", "me");
    }

    @Test
    void closingEndsAPendingCommand() throws Exception {
        command("LOCK.ACQUIRE", "a", "me");
        Connection connection = connection();
        AtomicReference<Throwable> end = new AtomicReference<>();
        Thread sender = new Thread(() -> {
            try {
                connection.line.send(SHORT_MS * 10, List.of("LOCK.ACQUIRE", "a", "other", "BLOCK", "0"), StandardCharsets.UTF_8, null);
            } catch (LinkException | ServerException e) {
                end.set(e);
            }
        });
        sender.start();
        awaitWaiting(1);
        long start = System.nanoTime();
        connection.line.close();
        sender.join();
        assertEquals(LinkException.class, end.get().getClass());
        assertTrue(System.nanoTime() - start < TimeUnit.SECONDS.toNanos(5));
        awaitWaiting(0);
        command("LOCK.RELEASE", "a", "me");
    }

    @Test
    void aConnectionThatTheServerClosesIsALostLink() throws Exception {
        Connection connection = connection();
        Object id = connection.line.send(SHORT_MS, List.of("CLIENT", "ID"), StandardCharsets.UTF_8, null);
        command("CLIENT", "KILL", "ID", id.toString());
        assertThrows(LinkException.class, () -> connection.line.send(SHORT_MS, List.of("PING"), StandardCharsets.UTF_8, null));
        locks.connections.drop(connection);
    }

    @Test
    void anInterruptIsReportedAndEndsNothing() throws Exception {
        command("LOCK.ACQUIRE", "a", "me");
        Connection connection = connection();
        CountDownLatch reported = new CountDownLatch(1);
        AtomicReference<Object> reply = new AtomicReference<>();
        AtomicReference<Boolean> flag = new AtomicReference<>();
        Thread sender = new Thread(() -> {
            try {
                reply.set(connection.line.send(SHORT_MS * 10, List.of("LOCK.ACQUIRE", "a", "other", "BLOCK", "0"), StandardCharsets.UTF_8, reported::countDown));
            } catch (LinkException | ServerException e) {
                reply.set(e);
            }
            flag.set(Thread.currentThread().isInterrupted());
        });
        sender.start();
        awaitWaiting(1);
        sender.interrupt();
        reported.await();
        command("LOCK.RELEASE", "a", "me");
        sender.join();
        assertEquals(1L, reply.get());
        assertTrue(flag.get());
        locks.connections.drop(connection);
        command("LOCK.RELEASE", "a", "other");
    }

    @Test
    void interruptsLeaveNothingBehind() throws Exception {
        try (Hold hold = locks.lock("a").acquireHold()) {
            AtomicReference<Throwable> end = new AtomicReference<>();
            Thread waiter = new Thread(() -> {
                try {
                    locks.lock("a").lockInterruptibly();
                } catch (InterruptedException e) {
                    end.set(e);
                }
            });
            waiter.start();
            awaitWaiting(1);
            waiter.interrupt();
            waiter.join();
            assertEquals(InterruptedException.class, end.get().getClass());
            awaitWaiting(0);
            assertFalse(hold.isLost());
        }
    }

    @Test
    void theUsersSettingsAreUsed() throws Exception {
        command("CONFIG", "SET", "requirepass", "secret");
        try (Locks other = connect(server.port(), 3, "secret"); Locks wrong = connect(server.port(), 0, "wrong")) {
            try (Hold hold = other.lock("a").acquireHold(Duration.ofNanos(PATIENCE))) {
                assertFalse(hold.isLost());
                assertEquals(0L, command("EXISTS", "a"), "it is in another database");
            }
            LockFailure e = assertThrows(LockException.class, () -> wrong.lock("a").acquireHold());
            assertEquals("WRONGPASS", e.code());
        } finally {
            command("CONFIG", "SET", "requirepass", "");
        }
    }

    @Test
    void noServer() {
        try (Locks other = connect(1, 0, null)) {
            RuntimeException e = assertThrows(RuntimeException.class, other.lock("a")::tryLock);
            assertFalse(e instanceof LockFailure, "it must be the library's own: " + e);
            other.setConnectTimeout(Duration.ofMillis(300));
            e = assertThrows(RuntimeException.class, other.lock("a")::lock);
            assertFalse(e instanceof LockFailure, "it must be the library's own: " + e);
            NotAcquiredException late =
                    assertThrows(NotAcquiredException.class, () -> other.lock("a").acquireHold(Duration.ofMillis(200)));
            assertTrue(late.getMessage().startsWith("lock \"a\" was not acquired within 0.2 s: "), late.getMessage());
            assertTrue(late.getMessage().contains("127.0.0.1:1"), late.getMessage());
            assertTrue(late.getMessage().contains("Connection refused"), late.getMessage());
            assertFalse(late.getMessage().contains("the server"), late.getMessage());
            assertEquals(e.getClass(), late.getCause().getClass());
        }
    }

    @Test
    void aGuardedCommand() throws Exception {
        try (Hold hold = locks.lock("a").acquireHold()) {
            assertTrue(locks.lock("a").isLocked());
            assertEquals(hold.owner(), locks.lock("a").info().holders().get(0).owner());
            hold.renew(Duration.ofSeconds(5));
            assertTrue(locks.lock("a").info().holders().get(0).left().orElseThrow().toMillis() <= 5_000);
            assertEquals("OK", hold.guard("SET", "b", "é"));
            assertEquals(List.of("é"), hold.guard("MGET", "b"));
            assertEquals(1L, hold.guard("DEL", "b"));
            assertNull(hold.guard("GET", "b"));
            assertEquals("ERR", assertThrows(LockException.class, () -> hold.guard("INCRBY", "b", "x")).code());
            String unknown = assertThrows(LockException.class, () -> hold.guard("NO.SUCH")).getMessage();
            assertTrue(unknown.startsWith("lock \"a\": ERR unknown command 'NO.SUCH'"), unknown);
            assertTrue(locks.lock("a").forceUnlock());
            assertThrows(NotHeldException.class, () -> hold.guard("SET", "b", "1"));
            assertThrows(NotHeldException.class, hold::renew);
            assertThrows(NotHeldException.class, hold::release);
        }
        assertFalse(locks.lock("a").isLocked());
    }

    @Test
    void aLatch() throws Exception {
        command("PING"); // the library's first connection may take longer than short commands have
        DistributedCountDownLatch latch = locks.countDownLatch("a");
        latch.set(2);
        assertEquals(1, latch.countDown());
        assertFalse(latch.await(10, TimeUnit.MILLISECONDS));
        assertEquals(1, latch.getCount());
        Thread counter = new Thread(latch::countDown);
        counter.start();
        latch.await();
        counter.join();
        assertEquals(0, latch.getCount());
    }

    @Test
    void aQueueOfBytes() throws Exception {
        command("PING"); // as above
        DelayedQueue queue = locks.delayedQueue("a");
        byte[] bytes = {(byte) 0xff, 0, (byte) 0xc3};
        queue.push("é", Duration.ofHours(1), "later");
        assertEquals("é", queue.list().get(0).value());
        assertTrue(queue.cancel("later"));
        assertFalse(queue.cancel("later"));
        queue.push(bytes, Duration.ofMillis(1));
        AtomicReference<byte[]> got = new AtomicReference<>();
        assertThrows(InterruptedException.class, () -> queue.consume(job -> {
            got.set(job.bytes());
            if (job.tries() == 1) {
                throw new IllegalStateException("the first time");
            }
            Thread.currentThread().interrupt();
        }, ConsumeOptions.DEFAULT.withBackoff(Duration.ofMillis(1))));
        assertArrayEquals(bytes, got.get());
        assertEquals(List.of(), queue.list());
        assertEquals(0L, command("EXISTS", "{a}:taken", "{a}:failed"));
    }

    @Test
    void theHolderIsNamed() throws Exception {
        try (Hold hold = locks.lock("a").acquireHold(); Locks other = connect(server.port(), 0, null)) {
            while (true) {
                NotAcquiredException e =
                        assertThrows(NotAcquiredException.class, () -> other.lock("a").acquireHold(Duration.ofMillis(50)));
                if (!e.holders().isEmpty()) { // otherwise there was no reply in 90 ms
                    assertEquals("lock \"a\" was not acquired within 0.05 s: held by " + hold.owner() + " (this process)", e.getMessage());
                    return;
                }
            }
        }
    }
}
