package so.lock.jedis;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.Timeout;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisClusterOperationException;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisMovedDataException;
import redis.clients.jedis.util.KeyValue;
import redis.clients.jedis.util.SafeEncoder;
import so.lock.ClusterProcesses;
import so.lock.Examples;
import so.lock.LossyWire;
import so.lock.ServerProcess;

/** What docs/clients/java.md says of Jedis: of the library alone, without the locks here. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@Timeout(60)
class JedisLibraryTest {
    private static final ProtocolCommand ACQUIRE = word("LOCK.ACQUIRE");
    private static final ProtocolCommand MACQUIRE = word("LOCK.MACQUIRE");
    private static final ProtocolCommand RELEASE = word("LOCK.RELEASE");
    private static final ProtocolCommand CANCEL = word("LOCK.CANCEL");
    private static final ProtocolCommand INFO = word("LOCK.INFO");
    private static final JedisClientConfig DEFAULT = DefaultJedisClientConfig.builder().build();
    private static final int SHORT_MS = 50;

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private ServerProcess server;
    private HostAndPort at;

    private static CommandArguments words(ProtocolCommand command, String key, String... more) {
        return new CommandArguments(command).key(key).addObjects((Object[]) more);
    }

    private static ProtocolCommand word(String name) {
        return () -> name.getBytes(StandardCharsets.UTF_8);
    }

    @BeforeAll
    void start() {
        server = new ServerProcess("--lock.session-grace", "0");
        at = new HostAndPort(ServerProcess.HOST, server.port());
    }

    @AfterAll
    void stop() {
        threads.shutdownNow();
        server.close();
    }

    @AfterEach
    void nothingIsLeft() {
        server.awaitWaiting(0);
        assertEquals("0", server.say("LOCK.FORCE key"));
    }

    private static RedisClient client(HostAndPort at, JedisClientConfig config, ConnectionPoolConfig pool) {
        return RedisClient.builder().hostAndPort(at).clientConfig(config).poolConfig(pool).build();
    }

    private RedisClient client(JedisClientConfig config) {
        return client(at, config, new ConnectionPoolConfig());
    }

    /** Its connection has that time-out when it has been made, for which a busy machine needs longer. */
    private RedisClient impatientClient() {
        RedisClient client = client(DEFAULT);
        try (Connection connection = client.getPool().getResource()) {
            connection.setSoTimeout(SHORT_MS);
        }
        return client;
    }

    private Jedis impatientJedis() {
        Jedis jedis = new Jedis(at, DEFAULT);
        jedis.getConnection().setSoTimeout(SHORT_MS);
        return jedis;
    }

    private void held() {
        assertEquals("1", server.say("LOCK.ACQUIRE key other"));
    }

    private void released() {
        assertEquals("0", server.say("LOCK.RELEASE key other"));
    }

    private <T> Future<T> waiter(Callable<T> wait) {
        Future<T> end = threads.submit(wait);
        server.awaitWaiting(1);
        return end;
    }

    @Test
    void theExamples() throws Exception {
        assertEquals(2, Examples.run(Path.of(System.getProperty("lockso.docs"), "clients", "java.md"), "jedis", server.port()));
        assertEquals("0", server.say("EXISTS report"));
    }

    // A call that waits

    @Test
    void theReadTimeOutOfABlockingCallIsAnother() {
        assertEquals(2_000, DEFAULT.getSocketTimeoutMillis());
        assertEquals(0, DEFAULT.getBlockingSocketTimeoutMillis());
        held();
        try (RedisClient client = impatientClient(); Jedis jedis = impatientJedis()) {
            assertNull(client.executeCommand(words(ACQUIRE, "key", "me", "BLOCK", "300").blocking()));
            assertNull(jedis.sendBlockingCommand(ACQUIRE, "key", "me", "BLOCK", "300"));
        }
        released();
    }

    @Test
    void aServerThatIsSilentIsNoticedIfOneSaysSo() {
        JedisClientConfig config = DefaultJedisClientConfig.builder().blockingSocketTimeoutMillis(50).build();
        held();
        try (RedisClient client = client(config)) {
            assertThrows(JedisConnectionException.class,
                    () -> client.executeCommand(words(ACQUIRE, "key", "me", "BLOCK", "0").blocking()));
        }
        server.awaitWaiting(0);
        released();
    }

    // Time-outs and retries

    @Test
    void anyOtherCallGivesUpAndThePoolClosesItsConnection() {
        held();
        try (RedisClient client = impatientClient()) {
            assertThrows(JedisConnectionException.class, () -> client.executeCommand(words(ACQUIRE, "key", "me", "BLOCK", "0")));
            server.awaitWaiting(0);
        }
        released();
        assertEquals(0, server.holds("key", "me"));
    }

    @Test
    void aJedisThatHasGivenUpIsStillInTheQueue() {
        held();
        try (Jedis jedis = impatientJedis()) {
            assertThrows(JedisConnectionException.class, () -> jedis.sendCommand(ACQUIRE, "key", "me", "BLOCK", "0"));
            server.awaitWaiting(1);
            released();
            assertEquals(1, server.holds("key", "me"), "granted to nobody");
            assertThrows(JedisConnectionException.class, jedis::ping, "and is of no more use");
        }
        assertEquals("2", server.say("LOCK.CANCEL key me RELEASE"), "closing it gives back nothing");
    }

    @Test
    void aRedisClientSendsNothingAgain() throws Exception {
        try (LossyWire wire = new LossyWire(server.port());
                RedisClient client = client(new HostAndPort(ServerProcess.HOST, wire.port()), DEFAULT, new ConnectionPoolConfig())) {
            wire.loseReplyTo("LOCK.ACQUIRE");
            assertThrows(JedisConnectionException.class, () -> client.executeCommand(words(ACQUIRE, "key", "me")));
            assertEquals(1, server.holds("key", "me"), "it has the lock, and does not know");
            assertEquals(2L, client.executeCommand(words(CANCEL, "key", "me", "RELEASE")));
        }
    }

    @Test
    void aClusterClientSendsAgain() throws Exception {
        try (ClusterProcesses cluster = new ClusterProcesses(1);
                LossyWire wire = new LossyWire(cluster.ports().get(0))) {
            ServerProcess node = cluster.nodes().get(0);
            JedisClientConfig config = DefaultJedisClientConfig.builder()
                    .hostAndPortMapper(there -> new HostAndPort(ServerProcess.HOST, wire.port()))
                    .build();
            try (RedisClusterClient client = cluster(cluster, config, 5)) {
                wire.loseReplyTo("LOCK.ACQUIRE");
                assertEquals(2L, client.executeCommand(words(ACQUIRE, "key", "me")), "a second hold");
                assertEquals(2, node.holds("key", "me"));
                wire.loseReplyTo("LOCK.ACQUIRE");
                assertEquals(1L, client.executeCommand(words(ACQUIRE, "other", "me", "ONCE")));
                assertEquals(1, node.holds("other", "me"));
            }
            try (RedisClusterClient client = cluster(cluster, config, 1)) {
                wire.loseReplyTo("LOCK.ACQUIRE");
                assertThrows(JedisClusterOperationException.class, () -> client.executeCommand(words(ACQUIRE, "third", "me")));
                assertEquals(1, node.holds("third", "me"));
            }
        }
    }

    @Test
    void aClusterClientWaitsAnewUpToFiveTimes() {
        assertEquals(5, RedisClusterClient.DEFAULT_MAX_ATTEMPTS);
        try (ClusterProcesses cluster = new ClusterProcesses(1)) {
            ServerProcess node = cluster.nodes().get(0);
            node.say("LOCK.ACQUIRE key other");
            // Its attempts together have five times that, with the connections that they make.
            JedisClientConfig impatient = DefaultJedisClientConfig.builder().socketTimeoutMillis(1_500).build();
            try (RedisClusterClient client = cluster(cluster, impatient, 5)) {
                assertThrows(RuntimeException.class, () -> client.executeCommand(words(ACQUIRE, "key", "me", "BLOCK", "0")));
            }
            node.awaitWaiting(0);
            assertTrue(node.info("commandstats", "cmdstat_lock.acquire:calls=") > 2);
        }
    }

    private static RedisClusterClient cluster(ClusterProcesses cluster, JedisClientConfig config, int attempts) {
        return RedisClusterClient.builder()
                .nodes(Set.of(new HostAndPort(ServerProcess.HOST, cluster.ports().get(0))))
                .clientConfig(config)
                .maxAttempts(attempts)
                .build();
    }

    // Giving up

    @Test
    void anInterruptEndsNoWaitAndACancellationDoes() throws Exception {
        held();
        try (RedisClient client = client(DEFAULT)) {
            AtomicReference<Thread> thread = new AtomicReference<>();
            Future<Boolean> interrupted = waiter(() -> {
                thread.set(Thread.currentThread());
                assertNull(client.executeCommand(words(ACQUIRE, "key", "me", "BLOCK", "0").blocking()));
                return Thread.currentThread().isInterrupted();
            });
            thread.get().interrupt();
            assertEquals("PONG", client.ping());
            assertEquals(1, server.waiting());
            assertFalse(interrupted.isDone());
            assertEquals(1L, client.executeCommand(words(CANCEL, "key", "me", "RELEASE")));
            assertTrue(interrupted.get());
            released();
            assertEquals(1L, client.executeCommand(words(ACQUIRE, "key", "me")));
            assertEquals(2L, client.executeCommand(words(CANCEL, "key", "me", "RELEASE")), "the grant was faster");
            assertEquals(0L, client.executeCommand(words(CANCEL, "key", "me", "RELEASE")));
        }
    }

    @Test
    void closingTheConnectionEndsTheWait() throws Exception {
        held();
        Jedis jedis = new Jedis(at, DEFAULT);
        Future<Object> end = waiter(() -> assertThrows(JedisConnectionException.class,
                () -> jedis.sendBlockingCommand(ACQUIRE, "key", "me", "BLOCK", "0")));
        jedis.getConnection().forceDisconnect();
        end.get();
        server.awaitWaiting(0);
        released();
    }

    // Connections

    @Test
    void waitsInAPoolHoldTheReleaseUp() throws Exception {
        try (RedisClient client = client(DEFAULT)) {
            int size = client.getPool().getMaxTotal();
            assertEquals(8, size);
            assertEquals(-1, client.getPool().getMaxWaitDuration().toMillis(), "for ever");
            assertEquals(1L, client.executeCommand(words(ACQUIRE, "key", "me")));
            List<Future<Object>> waits = IntStream.range(0, size)
                    .mapToObj(i -> threads.submit(() -> client.executeCommand(words(ACQUIRE, "key", "w" + i, "BLOCK", "0").blocking())))
                    .toList();
            server.awaitWaiting(size);
            Future<Object> release = threads.submit(() -> client.executeCommand(words(RELEASE, "key", "me")));
            while (client.getPool().getNumWaiters() == 0) {
                Thread.onSpinWait();
            }
            assertFalse(release.isDone());
            assertEquals(1, server.holds("key", "me"));
            for (int i = 0; i < size; i++) {
                server.say("LOCK.CANCEL key w" + i + " RELEASE");
            }
            assertEquals(0L, release.get());
            for (Future<Object> wait : waits) {
                wait.get();
            }
        }
    }

    @Test
    void aPoolEndsASessionThatIsIdle() {
        ConnectionPoolConfig pool = new ConnectionPoolConfig();
        assertEquals(Duration.ofSeconds(60), pool.getMinEvictableIdleDuration());
        assertEquals(Duration.ofSeconds(30), pool.getDurationBetweenEvictionRuns());
        pool.setMinEvictableIdleDuration(Duration.ofMillis(20));
        pool.setTimeBetweenEvictionRuns(Duration.ofMillis(20));
        try (RedisClient client = client(at, DEFAULT, pool); Jedis own = new Jedis(at, DEFAULT)) {
            assertEquals(1L, own.sendCommand(ACQUIRE, "another", "me", "SESSION"));
            assertEquals(1L, client.executeCommand(words(ACQUIRE, "key", "me", "SESSION")));
            while (server.holds("key", "me") > 0) {
                Thread.onSpinWait();
            }
            assertEquals(1, server.holds("another", "me"));
        }
        while (server.holds("another", "me") > 0) {
            Thread.onSpinWait();
        }
    }

    // Cluster

    @Test
    void theKeyHasToBeNamed() throws Exception {
        try (ClusterProcesses cluster = new ClusterProcesses(3); RedisClusterClient client = cluster(cluster, DEFAULT, 5)) {
            cluster.errors("MOVED");
            for (int i = 0; i < 30; i++) {
                assertEquals(1L, client.executeCommand(words(ACQUIRE, "k" + i, "me")));
                assertEquals(1L, client.executeCommand(words(ACQUIRE, "k" + i, "me", "BLOCK", "0", "ONCE").blocking()));
            }
            assertEquals(0, cluster.errors("MOVED"));
            assertThrows(JedisMovedDataException.class, () -> {
                for (int i = 0; i < 30; i++) {
                    client.executeCommand(new CommandArguments(ACQUIRE).add("k" + i).add("me").add("ONCE"));
                }
            }, "it goes to any node");
        }
    }

    @Test
    void severalKeysAfterTheirNumber() throws Exception {
        try (ClusterProcesses cluster = new ClusterProcesses(3); RedisClusterClient client = cluster(cluster, DEFAULT, 5)) {
            cluster.errors("MOVED");
            for (int i = 0; i < 30; i++) {
                CommandArguments words = new CommandArguments(MACQUIRE).add(2).key("{" + i + "}a").key("{" + i + "}b").add("me");
                assertEquals(2L, client.executeCommand(words.add("BLOCK").add(0).blocking()));
            }
            assertEquals(0, cluster.errors("MOVED"));
            CommandArguments words = new CommandArguments(MACQUIRE).add(2).key("a").key("b").add("me");
            assertThrows(JedisClusterOperationException.class, () -> client.executeCommand(words));
            CommandArguments unnamed = new CommandArguments(MACQUIRE).add(2).key("a").add("b").add("me");
            assertEquals(0, cluster.errors("CROSSSLOT"), "the library finds it out by itself");
            assertThrows(JedisDataException.class, () -> client.executeCommand(unnamed));
            assertEquals(1, cluster.errors("CROSSSLOT"));
        }
    }

    // Replies

    @Test
    void repliesAndErrors() {
        held();
        for (RedisProtocol protocol : RedisProtocol.values()) {
            JedisClientConfig config = DefaultJedisClientConfig.builder().protocol(protocol).build();
            try (RedisClient client = client(config)) {
                assertNull(client.executeCommand(words(ACQUIRE, "key", "me")));
                assertEquals(1L, client.executeCommand(words(ACQUIRE, "key2", "me")));
                assertEquals(0L, client.executeCommand(words(RELEASE, "key2", "me")));
                JedisDataException e =
                        assertThrows(JedisDataException.class, () -> client.executeCommand(words(RELEASE, "key", "me")));
                assertTrue(e.getMessage().startsWith("NOTHELD "));
                assertArrayEquals("LOST".getBytes(StandardCharsets.UTF_8),
                        (byte[]) client.executeCommand(words(word("LOCK.WATCH"), "key", "me")));
                assertNull(client.executeCommand(words(INFO, "free")));
            }
        }
        released();
    }

    @Test
    void theMapOfInfo() {
        held();
        try (RedisClient client = client(DefaultJedisClientConfig.builder().resp2().build())) {
            List<?> flat = assertInstanceOf(List.class, SafeEncoder.encodeObject(client.executeCommand(words(INFO, "key"))));
            assertEquals(List.of("mode", "exclusive", "holders"), flat.subList(0, 3));
            List<?> holder = (List<?>) ((List<?>) flat.get(3)).get(0);
            assertEquals(List.of("owner", "other"), holder.subList(0, 2));
        }
        for (JedisClientConfig config : List.of(DEFAULT, DefaultJedisClientConfig.builder().resp3().build())) {
            try (RedisClient client = client(config)) {
                List<?> pairs = assertInstanceOf(List.class, SafeEncoder.encodeObject(client.executeCommand(words(INFO, "key"))));
                assertEquals(new KeyValue<>("mode", "exclusive"), pairs.get(0));
                KeyValue<?, ?> holders = (KeyValue<?, ?>) pairs.get(1);
                assertEquals("holders", holders.getKey());
                assertEquals(new KeyValue<>("owner", "other"), ((List<?>) ((List<?>) holders.getValue()).get(0)).get(0));
            }
        }
        released();
    }
}
