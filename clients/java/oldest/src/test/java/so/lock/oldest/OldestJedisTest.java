package so.lock.oldest;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Set;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPooled;
import so.lock.Locks;
import so.lock.ServerProcess;
import so.lock.jedis.JedisLocks;

@SuppressWarnings("deprecation") // since Jedis 7
class OldestJedisTest extends OldestContract {
    private static final DefaultJedisClientConfig DEFAULT = DefaultJedisClientConfig.builder().build();

    @Override
    protected Locks connect(int port, int database, String password) {
        DefaultJedisClientConfig config =
                DefaultJedisClientConfig.builder().database(database).password(password).build();
        return JedisLocks.pooled(new JedisPooled(new HostAndPort(ServerProcess.HOST, port), config).getPool());
    }

    @Override
    Locks cluster(int port) {
        return JedisLocks.cluster(Set.of(new HostAndPort(ServerProcess.HOST, port)), DEFAULT);
    }

    @Override
    Locks sentinel(String master, int port) {
        return JedisLocks.sentinel(master, DEFAULT, Set.of(new HostAndPort(ServerProcess.HOST, port)), DEFAULT);
    }

    /** Otherwise these tests would show nothing. */
    @Test
    void itIsThisVersion() {
        String jar = jarOf(JedisPooled.class);
        assertTrue(jar.endsWith("jedis-" + System.getProperty("lockso.jedis") + ".jar"), jar);
    }
}
