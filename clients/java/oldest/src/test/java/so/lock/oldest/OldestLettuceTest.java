package so.lock.oldest;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.time.Duration;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import so.lock.AdapterContract;
import so.lock.Locks;
import so.lock.ServerProcess;
import so.lock.lettuce.LettuceLocks;

class OldestLettuceTest extends AdapterContract {
    /** Timers of handshakes outlive the client, and netty logs warnings about them. */
    private static final Logger COMPLAINTS = Logger.getLogger("io.netty.util.concurrent.DefaultPromise.rejectedExecution");

    private final RedisClient client = RedisClient.create();

    static {
        COMPLAINTS.setLevel(Level.OFF);
    }

    @Override
    protected Locks connect(int port, int database, String password) {
        RedisURI.Builder uri = RedisURI.builder().withHost(ServerProcess.HOST).withPort(port).withDatabase(database);
        return LettuceLocks.of(client, password == null ? uri.build() : uri.withPassword(password.toCharArray()).build());
    }

    @AfterAll
    void shutdown() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    /** Otherwise these tests would show nothing. */
    @Test
    void itIsThisVersion() {
        String jar = RedisClient.class.getProtectionDomain().getCodeSource().getLocation().toString();
        assertTrue(jar.endsWith("lettuce-core-" + System.getProperty("lockso.lettuce") + ".jar"), jar);
    }
}
