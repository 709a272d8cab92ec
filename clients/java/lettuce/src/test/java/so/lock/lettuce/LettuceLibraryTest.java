package so.lock.lettuce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisCommandTimeoutException;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.async.RedisClusterAsyncCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.CommandOutput;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.output.NestedMultiOutput;
import io.lettuce.core.output.ObjectOutput;
import io.lettuce.core.output.StatusOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.Timeout;
import so.lock.ClusterProcesses;
import so.lock.Examples;
import so.lock.LossyWire;
import so.lock.ServerProcess;

/** What docs/clients/java.md says of Lettuce: of the library alone, without the locks here. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@Timeout(60)
class LettuceLibraryTest {
    private static final Duration SHORT = Duration.ofMillis(50);
    /** For what has to be sent before it times out. */
    private static final Duration LONGER = Duration.ofSeconds(2);

    private final RedisClient client = RedisClient.create();
    private ServerProcess server;

    /** It tells of every connection that is made again. */
    private static final Logger TALK = Logger.getLogger("io.lettuce.core");

    static {
        TALK.setLevel(Level.SEVERE);
    }

    private record Word(String text) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return text.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String toString() {
            return text;
        }
    }

    private static final ProtocolKeyword ACQUIRE = new Word("LOCK.ACQUIRE");
    private static final ProtocolKeyword MACQUIRE = new Word("LOCK.MACQUIRE");
    private static final ProtocolKeyword RELEASE = new Word("LOCK.RELEASE");
    private static final ProtocolKeyword CANCEL = new Word("LOCK.CANCEL");
    private static final ProtocolKeyword INFO = new Word("LOCK.INFO");

    @BeforeAll
    void start() {
        server = new ServerProcess("--lock.session-grace", "0");
    }

    @AfterAll
    void stop() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        server.close();
    }

    @AfterEach
    void nothingIsLeft() {
        client.setOptions(ClientOptions.create());
        server.awaitWaiting(0);
        assertEquals("0", server.say("LOCK.FORCE key"));
    }

    private StatefulRedisConnection<String, String> connect() {
        return client.connect(uri(server.port()));
    }

    private static RedisURI uri(int port) {
        return RedisURI.create(ServerProcess.HOST, port);
    }

    private static CommandArgs<String, String> words(String key, String... more) {
        CommandArgs<String, String> words = new CommandArgs<>(StringCodec.UTF8).addKey(key);
        List.of(more).forEach(words::add);
        return words;
    }

    /** Sends it, and returns at once. */
    private static RedisFuture<Long> send(
            RedisClusterAsyncCommands<String, String> commands, ProtocolKeyword command, CommandArgs<String, String> words) {
        return commands.dispatch(command, new IntegerOutput<>(StringCodec.UTF8), words);
    }

    private static RedisFuture<Long> send(
            StatefulRedisConnection<String, String> connection, ProtocolKeyword command, String key, String... more) {
        return send(connection.async(), command, words(key, more));
    }

    /** Waits for the reply as the synchronous calls do. */
    private static Long call(
            StatefulRedisConnection<String, String> connection, ProtocolKeyword command, String key, String... more) {
        return connection.sync().dispatch(command, new IntegerOutput<>(StringCodec.UTF8), words(key, more));
    }

    private void held() {
        assertEquals("1", server.say("LOCK.ACQUIRE key other"));
    }

    private void released() {
        assertEquals("0", server.say("LOCK.RELEASE key other"));
    }

    private RedisFuture<Long> waiter(StatefulRedisConnection<String, String> connection) {
        RedisFuture<Long> wait = send(connection, ACQUIRE, "key", "me", "BLOCK", "0");
        server.awaitWaiting(1);
        return wait;
    }

    /** Granted to somebody who does not know, and who would keep it for its lease. */
    private void assertGhost() {
        assertEquals(1, server.waiting());
        released();
        assertEquals(1, server.holds("key", "me"));
        assertEquals("2", server.say("LOCK.CANCEL key me RELEASE"));
    }

    @Test
    void theExamples() throws Exception {
        assertEquals(1, Examples.run(Path.of(System.getProperty("lockso.docs"), "clients", "java.md"), "lettuce", server.port()));
        assertEquals("0", server.say("EXISTS report"));
    }

    // A call that waits

    @Test
    void withoutATimeOutTheConnectionWaits() {
        held();
        try (StatefulRedisConnection<String, String> connection = connect()) {
            connection.setTimeout(SHORT);
            connection.setTimeout(Duration.ZERO);
            assertNull(call(connection, ACQUIRE, "key", "me", "BLOCK", "300"));
            assertNull(send(connection, ACQUIRE, "key", "me", "BLOCK", "300").toCompletableFuture().join());
        }
        released();
    }

    // Time-outs and retries

    @Test
    void aCallThatTimesOutStaysInTheQueue() {
        held();
        try (StatefulRedisConnection<String, String> connection = connect()) {
            assertEquals(Duration.ofSeconds(60), connection.getTimeout());
        }
        RedisURI impatient = RedisURI.builder(uri(server.port())).withTimeout(LONGER).build();
        try (StatefulRedisConnection<String, String> connection = client.connect(impatient)) {
            assertThrows(RedisCommandTimeoutException.class, () -> call(connection, ACQUIRE, "key", "me", "BLOCK", "0"));
            server.awaitWaiting(1);
            assertGhost();
            assertEquals("PONG", connection.sync().ping());
        }
    }

    @Test
    void aFutureTimesOutToo() {
        held();
        try (StatefulRedisConnection<String, String> connection = connect()) {
            connection.setTimeout(LONGER);
            ExecutionException e = assertThrows(
                    ExecutionException.class, () -> send(connection, ACQUIRE, "key", "me", "BLOCK", "0").get());
            assertInstanceOf(RedisCommandTimeoutException.class, e.getCause());
            server.awaitWaiting(1);
            assertGhost();
        }
    }

    @Test
    void afterAReconnectTheWaitIsSentAgain() throws Exception {
        held();
        try (StatefulRedisConnection<String, String> connection = connect()) {
            long id = connection.sync().clientId();
            server.say("CONFIG RESETSTAT");
            RedisFuture<Long> wait = waiter(connection);
            server.say("CLIENT KILL ID " + id);
            while (server.info("commandstats", "cmdstat_lock.acquire:calls=") < 2) {
                Thread.onSpinWait();
            }
            server.awaitWaiting(1);
            released();
            assertEquals(1L, wait.get());
            assertNotEquals(id, connection.sync().clientId());
            assertEquals(0L, call(connection, RELEASE, "key", "me"));
        }
    }

    @Test
    void aLostReplyIsASecondHold() throws Exception {
        try (LossyWire wire = new LossyWire(server.port());
                StatefulRedisConnection<String, String> connection = client.connect(uri(wire.port()))) {
            wire.loseReplyTo("LOCK.ACQUIRE");
            assertEquals(2L, call(connection, ACQUIRE, "key", "me"));
            assertEquals(1L, call(connection, RELEASE, "key", "me"));
            assertEquals(1, server.holds("key", "me"));
            assertEquals(0L, call(connection, RELEASE, "key", "me"));
            wire.loseReplyTo("LOCK.ACQUIRE");
            assertEquals(1L, call(connection, ACQUIRE, "key", "me", "ONCE"));
            assertEquals(0L, call(connection, RELEASE, "key", "me"));
        }
    }

    @Test
    void aReleaseThatIsSentAgainFindsNothing() throws Exception {
        try (LossyWire wire = new LossyWire(server.port());
                StatefulRedisConnection<String, String> connection = client.connect(uri(wire.port()))) {
            assertEquals(1L, call(connection, ACQUIRE, "key", "me"));
            wire.loseReplyTo("LOCK.RELEASE");
            RedisCommandExecutionException e = assertThrows(
                    RedisCommandExecutionException.class, () -> call(connection, RELEASE, "key", "me"));
            assertTrue(e.getMessage().startsWith("NOTHELD "));
        }
    }

    @Test
    void aReplayFilterDoesNotPreventThat() throws Exception {
        client.setOptions(ClientOptions.builder().replayFilter(command -> true).build());
        try (LossyWire wire = new LossyWire(server.port());
                StatefulRedisConnection<String, String> connection = client.connect(uri(wire.port()))) {
            wire.loseReplyTo("LOCK.ACQUIRE");
            assertEquals(2L, call(connection, ACQUIRE, "key", "me"));
            assertEquals(2L, call(connection, CANCEL, "key", "me", "RELEASE"));
            assertEquals(0L, call(connection, RELEASE, "key", "me"));
        }
    }

    @Test
    void withoutReconnectingNothingIsSentAgain() throws Exception {
        client.setOptions(ClientOptions.builder().autoReconnect(false).build());
        try (LossyWire wire = new LossyWire(server.port());
                StatefulRedisConnection<String, String> connection = client.connect(uri(wire.port()))) {
            wire.loseReplyTo("LOCK.ACQUIRE");
            assertThrows(RedisException.class, () -> call(connection, ACQUIRE, "key", "me"));
            assertThrows(RedisException.class, () -> connection.sync().ping());
            assertEquals("2", server.say("LOCK.CANCEL key me RELEASE"));
        }
    }

    // Giving up

    @Test
    void aCancelledFutureStaysInTheQueue() {
        held();
        try (StatefulRedisConnection<String, String> connection = connect()) {
            RedisFuture<Long> wait = waiter(connection);
            assertTrue(wait.cancel(true));
            assertThrows(CancellationException.class, wait::get);
            assertGhost();
        }
    }

    @Test
    void anInterruptedCallStaysInTheQueue() {
        held();
        try (StatefulRedisConnection<String, String> connection = connect()) {
            Thread.currentThread().interrupt();
            assertThrows(RedisException.class, () -> call(connection, ACQUIRE, "key", "me", "BLOCK", "0"));
            assertTrue(Thread.interrupted());
            server.awaitWaiting(1);
            assertGhost();
        }
    }

    @Test
    void aCancellationOnAnotherConnection() throws Exception {
        held();
        try (StatefulRedisConnection<String, String> waits = connect();
                StatefulRedisConnection<String, String> others = connect()) {
            RedisFuture<Long> wait = waiter(waits);
            assertEquals(1L, call(others, CANCEL, "key", "me", "RELEASE"));
            assertNull(wait.get());
            released();
            assertEquals(1L, call(waits, ACQUIRE, "key", "me"));
            assertEquals(2L, call(others, CANCEL, "key", "me", "RELEASE"));
            assertEquals(0L, call(others, CANCEL, "key", "me", "RELEASE"));
        }
    }

    // Connections

    @Test
    void aWaitStallsAllThatSharesItsConnection() throws Exception {
        try (StatefulRedisConnection<String, String> shared = connect();
                StatefulRedisConnection<String, String> other = connect()) {
            assertEquals(1L, call(shared, ACQUIRE, "key", "holder"));
            RedisFuture<Long> wait = waiter(shared);
            RedisFuture<String> ping = shared.async().ping();
            RedisFuture<Long> release = send(shared, RELEASE, "key", "holder");
            assertEquals("PONG", other.sync().ping());
            assertEquals(1, server.holds("key", "holder"), "its own release stands behind the wait for it");
            assertFalse(ping.isDone() || release.isDone());
            assertEquals(1L, call(other, CANCEL, "key", "me", "RELEASE"));
            assertNull(wait.get());
            assertEquals("PONG", ping.get());
            assertEquals(0L, release.get());
        }
    }

    @Test
    void aReconnectEndsASession() {
        try (StatefulRedisConnection<String, String> connection = connect()) {
            assertEquals(1L, call(connection, ACQUIRE, "key", "me", "SESSION"));
            server.say("CLIENT KILL ID " + connection.sync().clientId());
            while (server.holds("key", "me") > 0) {
                Thread.onSpinWait();
            }
            assertEquals("PONG", connection.sync().ping(), "it is connected again, and says nothing of it");
        }
    }

    // Cluster

    @Test
    void theKeyHasToBeNamed() throws Exception {
        try (ClusterProcesses cluster = new ClusterProcesses(3)) {
            RedisClusterClient client = RedisClusterClient.create(uri(cluster.ports().get(0)));
            try {
                RedisClusterAsyncCommands<String, String> commands = client.connect().async();
                cluster.errors("MOVED");
                for (int i = 0; i < 30; i++) {
                    assertEquals(1L, send(commands, ACQUIRE, words("k" + i, "me")).get());
                    CommandArgs<String, String> several = new CommandArgs<>(StringCodec.UTF8).add(2);
                    several.addKey("{" + i + "}a").addKey("{" + i + "}b").add("me");
                    assertEquals(2L, send(commands, MACQUIRE, several).get());
                }
                assertEquals(0, cluster.errors("MOVED"));
                for (int i = 0; i < 30; i++) {
                    CommandArgs<String, String> unnamed = new CommandArgs<>(StringCodec.UTF8).add("k" + i).add("me");
                    assertEquals(1L, send(commands, ACQUIRE, unnamed.add("ONCE")).get());
                }
                assertTrue(cluster.errors("MOVED") > 0, "it goes to any node first");
            } finally {
                client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
            }
        }
    }

    // Replies

    @Test
    void repliesAndErrors() {
        held();
        for (ProtocolVersion protocol : ProtocolVersion.values()) {
            client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
            try (StatefulRedisConnection<String, String> connection = connect()) {
                assertNull(call(connection, ACQUIRE, "key", "me"));
                assertEquals(1L, call(connection, ACQUIRE, "key2", "me"));
                assertEquals(0L, call(connection, RELEASE, "key2", "me"));
                RedisCommandExecutionException e = assertThrows(
                        RedisCommandExecutionException.class, () -> call(connection, RELEASE, "key", "me"));
                assertTrue(e.getMessage().startsWith("NOTHELD "));
                assertEquals("LOST", connection.sync().dispatch(
                        new Word("LOCK.WATCH"), new StatusOutput<>(StringCodec.UTF8), words("key", "me")));
            }
        }
        released();
    }

    /** The parse of ObjectOutput fails at a null reply. */
    @Test
    void theMapOfInfo() {
        held();
        for (ProtocolVersion protocol : ProtocolVersion.values()) {
            client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
            try (StatefulRedisConnection<String, String> connection = connect()) {
                List<Object> flat = info(connection, new NestedMultiOutput<>(StringCodec.UTF8), "key");
                assertEquals(List.of("mode", "exclusive", "holders"), flat.subList(0, 3));
                List<?> holder = (List<?>) ((List<?>) flat.get(3)).get(0);
                assertEquals(List.of("owner", "other"), holder.subList(0, 2));
                assertEquals(Collections.singletonList(null),
                        info(connection, new NestedMultiOutput<>(StringCodec.UTF8), "free"));
                Object object = info(connection, new ObjectOutput<>(StringCodec.UTF8), "key");
                assertEquals(protocol == ProtocolVersion.RESP3, object instanceof Map);
                assertThrows(RuntimeException.class, () -> info(connection, new ObjectOutput<>(StringCodec.UTF8), "free"));
            }
        }
        assertEquals(ProtocolVersion.RESP3, ProtocolVersion.newestSupported(), "the default");
        released();
    }

    private static <T> T info(
            StatefulRedisConnection<String, String> connection, CommandOutput<String, String, T> output, String key) {
        return connection.sync().dispatch(INFO, output, words(key));
    }
}
