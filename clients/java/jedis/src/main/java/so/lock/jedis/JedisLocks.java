package so.lock.jedis;

import java.util.Set;
import org.apache.commons.pool2.PooledObjectFactory;
import redis.clients.jedis.Connection;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.util.Pool;
import so.lock.Locks;

/**
 * Locks on Jedis. They open connections of their own, which are in no pool. Jedis exposes the settings of a
 * {@code RedisClient} only; for a cluster and for Sentinel pass the settings from which the client was created.
 */
public final class JedisLocks {
    private JedisLocks() {}

    /** On the server of a client, with its settings; the client's connections are not used. */
    public static Locks of(RedisClient client) {
        return pooled(client.getPool());
    }

    /** On the server of another client that has a pool, such as {@code JedisPooled}: {@code pooled(client.getPool())}. */
    public static Locks pooled(Pool<Connection> pool) {
        PooledObjectFactory<Connection> factory = pool.getFactory();
        return new Locks(new JedisWire.Single(() -> factory.makeObject().getObject(), null));
    }

    /** On one server. */
    public static Locks single(HostAndPort server, JedisClientConfig config) {
        return new Locks(new JedisWire.Single(() -> new Connection(server, config), server.toString()));
    }

    /**
     * On a cluster.
     *
     * @param nodes some of its nodes
     */
    public static Locks cluster(Set<HostAndPort> nodes, JedisClientConfig config) {
        return new Locks(new JedisWire.Cluster(nodes, config));
    }

    /** On a master that Sentinel monitors; its address is queried for each new connection. */
    public static Locks sentinel(
            String master, JedisClientConfig config, Set<HostAndPort> sentinels, JedisClientConfig sentinelConfig) {
        return new Locks(new JedisWire.Sentinel(master, config, sentinels, sentinelConfig));
    }
}
