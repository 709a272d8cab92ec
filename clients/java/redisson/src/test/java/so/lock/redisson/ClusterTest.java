package so.lock.redisson;

import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.redisson.config.Config;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.UnifiedJedis;
import so.lock.ClusterProcesses;
import so.lock.Locks;
import so.lock.ServerProcess;
import so.lock.jedis.JedisLocks;

/** Three masters. */
class ClusterTest extends OtherObjects {
    private static final int MASTERS = 3;

    private ClusterProcesses cluster;

    @Override
    List<ServerProcess> servers() {
        cluster = new ClusterProcesses(MASTERS, "--lock.redisson-interop", "yes");
        return cluster.nodes();
    }

    @Override
    Config redisson(List<Integer> ports) {
        Config config = new Config();
        ports.forEach(port -> config.useClusterServers().addNodeAddress("redis://" + ServerProcess.HOST + ":" + port));
        return config;
    }

    @Override
    UnifiedJedis jedis(List<Integer> ports) {
        return RedisClusterClient.create(nodes(ports));
    }

    @Override
    Locks locks(List<Integer> ports, UnifiedJedis jedis) {
        return JedisLocks.cluster(nodes(ports), DefaultJedisClientConfig.builder().build());
    }

    private static Set<HostAndPort> nodes(List<Integer> ports) {
        return ports.stream().map(port -> new HostAndPort(ServerProcess.HOST, port)).collect(Collectors.toSet());
    }

    @Override
    void stopServers() {
        cluster.close();
    }
}
