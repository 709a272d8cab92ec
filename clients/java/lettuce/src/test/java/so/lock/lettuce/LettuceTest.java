package so.lock.lettuce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.protocol.ProtocolVersion;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import so.lock.AdapterContract;
import so.lock.Examples;
import so.lock.Hold;
import so.lock.Locks;
import so.lock.ServerProcess;

class LettuceTest extends AdapterContract {
    /** Timers of handshakes outlive the client, and netty logs warnings about them. */
    private static final Logger COMPLAINTS = Logger.getLogger("io.netty.util.concurrent.DefaultPromise.rejectedExecution");

    private final RedisClient client = RedisClient.create();

    static {
        COMPLAINTS.setLevel(Level.OFF);
    }

    @Override
    protected Locks connect(int port, int database, String password) {
        return LettuceLocks.of(client, uri(port, database, password));
    }

    private static RedisURI uri(int port, int database, String password) {
        RedisURI.Builder builder = RedisURI.builder().withHost(ServerProcess.HOST).withPort(port).withDatabase(database);
        return password == null ? builder.build() : builder.withPassword(password.toCharArray()).build();
    }

    @AfterAll
    void shutdown() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    @Test
    void theUsersTimeOutDoesNotLimitAWait() throws Exception {
        RedisURI impatient = RedisURI.builder(uri(server.port(), 0, null)).withTimeout(Duration.ofMillis(50)).build();
        try (Locks locks = LettuceLocks.of(client, impatient); Hold hold = locks.lock("a").acquireHold()) {
            long start = System.nanoTime();
            assertFalse(locks.lock("a").tryLock(300, TimeUnit.MILLISECONDS), hold.owner());
            assertFalse(System.nanoTime() - start < TimeUnit.MILLISECONDS.toNanos(300));
        }
    }

    @Test
    void bothProtocols() throws Exception {
        for (ProtocolVersion protocol : ProtocolVersion.values()) {
            RedisClient other = RedisClient.create(client.getResources());
            other.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
            try (Locks locks = LettuceLocks.of(other, uri(server.port(), 0, null))) {
                locks.lock("a").acquireHold().close();
            }
        }
    }

    @Test
    void theExampleOfThePage() throws Exception {
        assertEquals(1, Examples.run(Path.of(System.getProperty("lockso.docs"), "clients", "java.md"), "lettuce", server.port()));
        assertEquals("0", server.command("EXISTS report"));
    }
}
