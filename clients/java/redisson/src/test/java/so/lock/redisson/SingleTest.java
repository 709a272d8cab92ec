package so.lock.redisson;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.UnifiedJedis;
import so.lock.Locks;
import so.lock.ServerProcess;
import so.lock.jedis.JedisLocks;

class SingleTest extends OtherObjects {
    private ServerProcess server;

    @Override
    List<ServerProcess> servers() {
        server = new ServerProcess("--lock.redisson-interop", "yes");
        return List.of(server);
    }

    @Override
    Config redisson(List<Integer> ports) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + ServerProcess.HOST + ":" + ports.get(0));
        return config;
    }

    @Override
    UnifiedJedis jedis(List<Integer> ports) {
        return RedisClient.create(ServerProcess.HOST, ports.get(0));
    }

    @Override
    Locks locks(List<Integer> ports, UnifiedJedis jedis) {
        return JedisLocks.of((RedisClient) jedis);
    }

    @Override
    void stopServers() {
        server.close();
    }

    /** Redisson writes the key itself. */
    @Test
    void aQuarantineDoesNotApplyToRedisson() {
        try (ServerProcess fresh = new ServerProcess("--lock.quarantine", "60000");
                RedisClient client = RedisClient.create(ServerProcess.HOST, fresh.port());
                Locks locks = JedisLocks.of(client)) {
            RedissonClient redisson = Redisson.create(redisson(List.of(fresh.port())));
            assertFalse(locks.lock("a").tryLock());
            assertTrue(redisson.getLock("a").tryLock());
            redisson.shutdown();
        }
    }
}
