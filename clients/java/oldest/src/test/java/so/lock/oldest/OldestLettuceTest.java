package so.lock.oldest;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import so.lock.Locks;
import so.lock.ServerProcess;
import so.lock.lettuce.LettuceLocks;

class OldestLettuceTest extends OldestContract {
    /** Timers of handshakes outlive the client, and netty logs warnings about them. */
    private static final Logger COMPLAINTS = Logger.getLogger("io.netty.util.concurrent.DefaultPromise.rejectedExecution");

    private final RedisClient client = RedisClient.create();
    private RedisClusterClient cluster; // null: not used

    static {
        COMPLAINTS.setLevel(Level.OFF);
    }

    @Override
    protected Locks connect(int port, int database, String password) {
        RedisURI.Builder uri = RedisURI.builder().withHost(ServerProcess.HOST).withPort(port).withDatabase(database);
        return LettuceLocks.of(client, password == null ? uri.build() : uri.withPassword(password.toCharArray()).build());
    }

    @Override
    Locks cluster(int port) {
        cluster = RedisClusterClient.create(client.getResources(), RedisURI.create(ServerProcess.HOST, port));
        return LettuceLocks.of(cluster);
    }

    @Override
    Locks sentinel(String master, int port) {
        return LettuceLocks.of(client, RedisURI.Builder.sentinel(ServerProcess.HOST, port, master).build());
    }

    @AfterAll
    void shutdown() {
        if (cluster != null) {
            cluster.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        }
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    /** Otherwise these tests would show nothing. */
    @Test
    void itIsThisVersion() {
        String jar = jarOf(RedisClient.class);
        assertTrue(jar.endsWith("lettuce-core-" + System.getProperty("lockso.lettuce") + ".jar"), jar);
    }
}
