package so.lock.redisson;

import java.util.List;
import org.redisson.config.Config;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.UnifiedJedis;
import so.lock.Locks;
import so.lock.ServerProcess;
import so.lock.jedis.JedisLocks;

class SingleTest extends Beside {
    private ServerProcess server;

    @Override
    List<Integer> servers() {
        server = new ServerProcess("--lock.redisson-interop", "yes");
        return List.of(server.port());
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
}
