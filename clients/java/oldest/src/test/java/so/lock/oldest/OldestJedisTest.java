package so.lock.oldest;

import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPooled;
import so.lock.AdapterContract;
import so.lock.Locks;
import so.lock.ServerProcess;
import so.lock.jedis.JedisLocks;

class OldestJedisTest extends AdapterContract {
    @Override
    protected Locks connect(int port, int database, String password) {
        DefaultJedisClientConfig config =
                DefaultJedisClientConfig.builder().database(database).password(password).build();
        return JedisLocks.pooled(new JedisPooled(new HostAndPort(ServerProcess.HOST, port), config).getPool());
    }

    /** Otherwise these tests would show nothing. */
    @Test
    void itIsThisVersion() {
        String jar = JedisPooled.class.getProtectionDomain().getCodeSource().getLocation().toString();
        assertTrue(jar.endsWith("jedis-" + System.getProperty("lockso.jedis") + ".jar"), jar);
    }
}
