package so.lock.redisson;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.redisson.config.Config;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.UnifiedJedis;
import so.lock.Locks;
import so.lock.ServerProcess;
import so.lock.jedis.JedisLocks;

/** Three masters. */
class ClusterTest extends Beside {
    private static final int MASTERS = 3;
    private static final int SLOTS = 16384;

    private final List<ServerProcess> servers = new ArrayList<>();

    @Override
    List<Integer> servers() throws IOException {
        List<Integer> buses = new ArrayList<>();
        for (int i = 0; i < MASTERS; i++) {
            buses.add(ServerProcess.freePort());
            servers.add(new ServerProcess("--cluster-enabled", "yes", "--cluster-port", buses.get(i).toString(),
                    "--lock.redisson-interop", "yes"));
        }
        for (int i = 0; i < MASTERS; i++) {
            try (Jedis node = node(i)) {
                node.clusterAddSlotsRange(SLOTS * i / MASTERS, SLOTS * (i + 1) / MASTERS - 1);
                node.clusterSetConfigEpoch(i + 1);
                node.sendCommand(Protocol.Command.CLUSTER, "MEET", ServerProcess.HOST,
                        Integer.toString(servers.get(0).port()), buses.get(0).toString());
            }
        }
        for (int i = 0; i < MASTERS; i++) {
            awaitWhole(i);
        }
        return servers.stream().map(ServerProcess::port).toList();
    }

    private void awaitWhole(int i) {
        try (Jedis node = node(i)) {
            String info = node.clusterInfo();
            while (!info.contains("cluster_state:ok") || !info.contains("cluster_known_nodes:" + MASTERS)) {
                info = node.clusterInfo();
            }
        }
    }

    private Jedis node(int i) {
        return new Jedis(ServerProcess.HOST, servers.get(i).port());
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
        servers.forEach(ServerProcess::close);
    }
}
