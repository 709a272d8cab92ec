package so.lock.jedis;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.Connection;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import so.lock.AdapterContract;
import so.lock.DistributedLock;
import so.lock.Examples;
import so.lock.Locks;
import so.lock.NotAcquiredException;
import so.lock.ServerProcess;

class JedisTest extends AdapterContract {
    @Override
    protected Locks connect(int port, int database, String password) {
        DefaultJedisClientConfig config =
                DefaultJedisClientConfig.builder().database(database).password(password).build();
        return JedisLocks.of(client(port, config));
    }

    /** Its pool stays empty, so nothing needs to be closed. */
    private static RedisClient client(int port, DefaultJedisClientConfig config) {
        ConnectionPoolConfig pool = new ConnectionPoolConfig();
        pool.setMaxTotal(1);
        return RedisClient.builder()
                .hostAndPort(new HostAndPort(ServerProcess.HOST, port))
                .clientConfig(config)
                .poolConfig(pool)
                .build();
    }

    @Test
    void theUsersPoolIsNotUsed() throws Exception {
        RedisClient client = client(server.port(), DefaultJedisClientConfig.builder().build());
        try (client; Connection all = client.getPool().getResource(); Locks locks = JedisLocks.of(client)) {
            DistributedLock lock = locks.lock("a");
            assertTrue(lock.tryLock(30, TimeUnit.SECONDS));
            lock.unlock();
            assertEquals(1, client.getPool().getNumActive());
            assertTrue(all.isConnected());
        }
    }

    @Test
    void aClusterThatNeverRepliedIsNamed() {
        Set<HostAndPort> nodes = Set.of(new HostAndPort(ServerProcess.HOST, 1), new HostAndPort(ServerProcess.HOST, 2));
        try (Locks locks = JedisLocks.cluster(nodes, DefaultJedisClientConfig.builder().build())) {
            NotAcquiredException e = assertThrows(NotAcquiredException.class, () -> locks.lock("a").acquireHold(Duration.ofSeconds(1)));
            assertTrue(e.getMessage().endsWith(" (127.0.0.1:1)"), e.getMessage());
        }
    }

    @Test
    void bothProtocols() throws Exception {
        HostAndPort at = new HostAndPort(ServerProcess.HOST, server.port());
        for (RedisProtocol protocol : new RedisProtocol[] {RedisProtocol.RESP2, RedisProtocol.RESP3}) {
            try (Locks locks = JedisLocks.single(at, DefaultJedisClientConfig.builder().protocol(protocol).build())) {
                locks.lock("a").acquireHold().close();
            }
        }
    }

    @Test
    void theExamplesOfThePage() throws Exception {
        assertEquals(2, Examples.run(Path.of(System.getProperty("lockso.docs"), "clients", "java.md"), "jedis", server.port()));
        assertEquals("0", server.command("EXISTS report"));
    }
}
