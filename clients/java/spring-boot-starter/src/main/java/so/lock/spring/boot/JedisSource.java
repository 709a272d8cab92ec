package so.lock.spring.boot;

import java.util.Collection;
import java.util.Set;
import java.util.stream.Collectors;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisConfiguration;
import org.springframework.data.redis.connection.RedisNode;
import org.springframework.data.redis.connection.RedisPassword;
import org.springframework.data.redis.connection.RedisSentinelConfiguration;
import org.springframework.data.redis.connection.jedis.JedisClientConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import so.lock.Locks;
import so.lock.jedis.JedisLocks;

/** Locks on Jedis, with the settings of a connection factory. */
final class JedisSource {
    private final JedisConnectionFactory factory;

    private JedisSource(JedisConnectionFactory factory) {
        this.factory = factory;
    }

    static Locks locks(JedisConnectionFactory factory) {
        return new JedisSource(factory).locks();
    }

    private Locks locks() {
        RedisClusterConfiguration cluster = factory.getClusterConfiguration();
        RedisSentinelConfiguration sentinel = factory.getSentinelConfiguration();
        if (cluster != null) {
            return JedisLocks.cluster(addresses(cluster.getClusterNodes()), settings(cluster, 0));
        } else if (sentinel != null) {
            return JedisLocks.sentinel(sentinel.getMaster().getName(), settings(sentinel, factory.getDatabase()),
                    addresses(sentinel.getSentinels()),
                    settings(sentinel.getSentinelUsername(), sentinel.getSentinelPassword(), 0));
        }
        return JedisLocks.single(new HostAndPort(factory.getHostName(), factory.getPort()),
                settings(factory.getStandaloneConfiguration(), factory.getDatabase()));
    }

    private static Set<HostAndPort> addresses(Collection<RedisNode> nodes) {
        return nodes.stream()
                .map(node -> new HostAndPort(node.getHost(), node.getPort()))
                .collect(Collectors.toSet());
    }

    private JedisClientConfig settings(RedisConfiguration.WithAuthentication user, int database) {
        return settings(user.getUsername(), user.getPassword(), database);
    }

    private JedisClientConfig settings(String user, RedisPassword password, int database) {
        JedisClientConfiguration settings = factory.getClientConfiguration();
        DefaultJedisClientConfig.Builder config = DefaultJedisClientConfig.builder()
                .connectionTimeoutMillis((int) settings.getConnectTimeout().toMillis())
                .socketTimeoutMillis((int) settings.getReadTimeout().toMillis())
                .ssl(settings.isUseSsl())
                .database(database)
                .user(user);
        settings.getSslSocketFactory().ifPresent(config::sslSocketFactory);
        settings.getSslParameters().ifPresent(config::sslParameters);
        settings.getHostnameVerifier().ifPresent(config::hostnameVerifier);
        settings.getClientName().ifPresent(config::clientName);
        password.toOptional().map(String::new).ifPresent(config::password);
        settings.getClientConfigCustomizer().ifPresent(customizer -> customizer.customize(config));
        return config.build();
    }
}
