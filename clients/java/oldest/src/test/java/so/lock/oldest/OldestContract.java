package so.lock.oldest;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import so.lock.AdapterContract;
import so.lock.ClusterProcesses;
import so.lock.DistributedLock;
import so.lock.Hold;
import so.lock.Locks;
import so.lock.ServerProcess;

/** Also in a cluster and with Sentinel, which the newest versions show in the conformance suite. */
abstract class OldestContract extends AdapterContract {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    /** The folder with the class, by which the version is known. */
    static String jarOf(Class<?> library) {
        return library.getProtectionDomain().getCodeSource().getLocation().toString();
    }

    abstract Locks cluster(int port);

    abstract Locks sentinel(String master, int port);

    @Test
    void aCluster() throws Exception {
        try (ClusterProcesses cluster = new ClusterProcesses(2); Locks locks = cluster(cluster.ports().get(0))) {
            locks.setConnectTimeout(PATIENCE);
            DistributedLock lock = locks.multiLock(List.of("a", "b")); // in slots of both
            try (Hold hold = lock.acquireHold(PATIENCE)) {
                assertEquals(2, hold.holds().size());
                assertTrue(locks.lock("a").isLocked());
            }
        }
    }

    @Test
    void sentinel() throws Exception {
        Path config = Files.createTempFile(Path.of(System.getProperty("lockso.folder")), "sentinel", ".conf");
        Files.writeString(config, "sentinel monitor lock-so " + ServerProcess.HOST + " " + server.port() + " 1\n");
        try (ServerProcess sentinel = new ServerProcess(config.toString(), "--sentinel");
                Locks locks = sentinel("lock-so", sentinel.port())) {
            locks.setConnectTimeout(PATIENCE);
            locks.lock("a").acquireHold(PATIENCE).release();
        } finally {
            Files.delete(config);
        }
    }
}
