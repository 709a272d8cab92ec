package so.lock.spring.boot;

import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.resource.ClientResources;
import java.util.List;
import java.util.Optional;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisConfiguration;
import org.springframework.data.redis.connection.RedisPassword;
import org.springframework.data.redis.connection.RedisSentinelConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConverters;
import so.lock.Locks;
import so.lock.lettuce.LettuceLocks;

/**
 * A client of Lettuce with the settings of a connection factory, for locks. The client of the factory is not used,
 * because the factory shuts it down when the application stops, before the locks are closed.
 */
final class LettuceSource implements DisposableBean {
    private final LettuceClientConfiguration settings;
    private final AbstractRedisClient client;
    private final Locks locks;

    LettuceSource(LettuceConnectionFactory factory) {
        settings = factory.getClientConfiguration();
        Optional<ClientResources> resources = settings.getClientResources();
        RedisClusterConfiguration cluster = factory.getClusterConfiguration();
        if (cluster != null) {
            List<RedisURI> nodes = cluster.getClusterNodes().stream()
                    .map(node -> configured(RedisURI.create(node.getHost(), node.getPort()), cluster))
                    .toList();
            RedisClusterClient clustered = resources.map(shared -> RedisClusterClient.create(shared, nodes))
                    .orElseGet(() -> RedisClusterClient.create(nodes));
            settings.getClientOptions().map(LettuceSource::clusterOptions).ifPresent(clustered::setOptions);
            client = clustered;
            locks = LettuceLocks.of(clustered);
        } else {
            RedisClient single = resources.map(RedisClient::create).orElseGet(RedisClient::create);
            settings.getClientOptions().ifPresent(single::setOptions);
            client = single;
            locks = LettuceLocks.of(single, address(factory));
        }
    }

    Locks locks() {
        return locks;
    }

    @Override
    public void destroy() {
        client.shutdown(settings.getShutdownQuietPeriod(), settings.getShutdownTimeout());
    }

    private RedisURI address(LettuceConnectionFactory factory) {
        RedisSentinelConfiguration sentinel = factory.getSentinelConfiguration();
        RedisConfiguration configuration = sentinel;
        RedisURI address;
        if (sentinel != null) {
            address = LettuceConverters.sentinelConfigurationToRedisURI(sentinel);
            address.getSentinels().forEach(this::secured);
        } else {
            RedisStandaloneConfiguration standalone = factory.getStandaloneConfiguration();
            configuration = standalone;
            address = RedisURI.create(standalone.getHostName(), standalone.getPort());
        }
        address.setDatabase(factory.getDatabase());
        return configured(address, configuration);
    }

    private RedisURI configured(RedisURI address, RedisConfiguration configuration) {
        secured(address);
        settings.getClientName().ifPresent(address::setClientName);
        RedisConfiguration.WithAuthentication user = (RedisConfiguration.WithAuthentication) configuration;
        RedisPassword password = user.getPassword();
        if (settings.getRedisCredentialsProviderFactory().isPresent()) {
            address.setCredentialsProvider(
                    settings.getRedisCredentialsProviderFactory().get().createCredentialsProvider(configuration));
        } else if (password.isPresent()) {
            address.setAuthentication(user.getUsername(), password.get());
        }
        return address;
    }

    private void secured(RedisURI address) {
        address.setSsl(settings.isUseSsl());
        address.setVerifyPeer(settings.getVerifyMode());
        address.setStartTls(settings.isStartTls());
    }

    private static ClusterClientOptions clusterOptions(ClientOptions options) {
        return options instanceof ClusterClientOptions cluster ? cluster : ClusterClientOptions.builder(options).build();
    }
}
