package so.lock.shedlock;

import static org.junit.jupiter.api.Assertions.assertEquals;

import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.test.support.AbstractExtensibleLockProviderIntegrationTest;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import redis.clients.jedis.RedisClient;
import so.lock.Locks;
import so.lock.ServerProcess;
import so.lock.jedis.JedisLocks;

/** ShedLock's own tests for providers. */
class ProviderContractTest extends AbstractExtensibleLockProviderIntegrationTest {
    private static ServerProcess server;
    private static RedisClient client;
    private static Locks locks;

    @BeforeAll
    static void begin() {
        server = new ServerProcess();
        client = RedisClient.create(ServerProcess.HOST, server.port());
        locks = JedisLocks.of(client);
    }

    @AfterAll
    static void end() {
        locks.close();
        client.close();
        server.close();
    }

    @Override
    protected ExtensibleLockProvider getLockProvider() {
        return new DistributedLockProvider(locks);
    }

    @Override
    protected void assertUnlocked(String name) {
        assertEquals("0", server.command("EXISTS shedlock:" + name));
    }

    @Override
    protected void assertLocked(String name) {
        assertEquals("1", server.command("EXISTS shedlock:" + name));
    }
}
