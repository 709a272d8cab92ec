package so.lock.conformance;

import com.google.gson.JsonObject;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.RedisSentinelClient;
import redis.clients.jedis.UnifiedJedis;
import so.lock.Locks;
import so.lock.jedis.JedisLocks;

final class JedisFlavour implements Flavour {
    private static final String HOST = "127.0.0.1";
    private static final JedisClientConfig CONFIG = DefaultJedisClientConfig.builder().build();

    @Override
    public User connect(JsonObject to, int pool) {
        ConnectionPoolConfig poolConfig = new ConnectionPoolConfig();
        if (pool > 0) {
            poolConfig.setMaxTotal(pool);
        }
        return switch (to.get("kind").getAsString()) {
            case "cluster" -> cluster(nodes(to), poolConfig);
            case "sentinel" -> sentinel(to.get("master").getAsString(), nodes(to), poolConfig);
            default -> single(new HostAndPort(HOST, to.get("port").getAsInt()), poolConfig);
        };
    }

    private static User single(HostAndPort server, ConnectionPoolConfig pool) {
        RedisClient client =
                RedisClient.builder().hostAndPort(server).clientConfig(CONFIG).poolConfig(pool).build();
        return new JedisUser(client, () -> JedisLocks.of(client));
    }

    private static User cluster(Set<HostAndPort> nodes, ConnectionPoolConfig pool) {
        RedisClusterClient client =
                RedisClusterClient.builder().nodes(nodes).clientConfig(CONFIG).poolConfig(pool).build();
        return new JedisUser(client, () -> JedisLocks.cluster(nodes, CONFIG));
    }

    private static User sentinel(String master, Set<HostAndPort> sentinels, ConnectionPoolConfig pool) {
        RedisSentinelClient client = RedisSentinelClient.builder()
                .masterName(master)
                .sentinels(sentinels)
                .clientConfig(CONFIG)
                .poolConfig(pool)
                .build();
        return new JedisUser(client, () -> JedisLocks.sentinel(master, CONFIG, sentinels, CONFIG));
    }

    private static Set<HostAndPort> nodes(JsonObject to) {
        return Flavour.ports(to).stream().map(port -> new HostAndPort(HOST, port)).collect(Collectors.toSet());
    }

    private record JedisUser(UnifiedJedis client, Supplier<Locks> maker, Locks locks) implements User {
        JedisUser(UnifiedJedis client, Supplier<Locks> maker) {
            this(client, maker, maker.get());
        }

        @Override
        public Locks fresh() {
            return maker.get();
        }

        @Override
        public String get(String key) {
            return client.get(key);
        }

        @Override
        public void set(String key, String value) {
            client.set(key, value);
        }

        @Override
        public void ping() {
            client.ping();
        }

        @Override
        public void pop(String key) {
            client.blpop(0, key);
        }

        @Override
        public void push(String key, String value) {
            client.rpush(key, value);
        }

        @Override
        public int blocked() {
            return Flavour.blocked(client.info("clients"));
        }

        @Override
        public void close() {
            locks.close();
            client.close();
        }
    }
}
