package so.lock.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import net.javacrumbs.shedlock.core.LockProvider;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.integration.support.locks.DefaultLockRegistry;
import org.springframework.integration.support.locks.LockRegistry;
import so.lock.ClusterProcesses;
import so.lock.Hold;
import so.lock.Locks;
import so.lock.ServerProcess;
import so.lock.shedlock.DistributedLockProvider;
import so.lock.spring.integration.DistributedLockRegistry;

class AutoConfigurationTest {
    private static final String HOST = "spring.data.redis.host=" + ServerProcess.HOST;
    private static final String USER = "on >secret ~* &* +@all";

    private final ApplicationContextRunner runner = new ApplicationContextRunner().withConfiguration(
            AutoConfigurations.of(DataRedisAutoConfiguration.class, LockSoAutoConfiguration.class,
                    LockSoJedisAutoConfiguration.class, LockSoShedLockAutoConfiguration.class, LockSoIntegrationAutoConfiguration.class));
    private final List<Hold> held = new ArrayList<>(); // those that are collected are released
    private ServerProcess server;

    @AfterEach
    void end() {
        if (server != null) {
            server.close();
        }
    }

    private ApplicationContextRunner on(String library) {
        return runner.withPropertyValues("spring.data.redis.client-type=" + library);
    }

    private static String port(ServerProcess server) {
        return "spring.data.redis.port=" + server.port();
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void aServerWithAUserAndADatabase(String library) {
        server = new ServerProcess();
        server.command("ACL SETUSER app " + USER);
        on(library).withPropertyValues(HOST, port(server), "spring.data.redis.username=app",
                "spring.data.redis.password=secret", "spring.data.redis.database=3", "spring.data.redis.client-name=app",
                "lock-so.registry-key=orders", "lock-so.lease=1m", "lock-so.fenced=true").run(context -> {
                    DistributedLockRegistry registry = context.getBean(DistributedLockRegistry.class);
                    registry.obtain("a").lock();
                    assertThat(registry.obtain("a").currentHold().token()).isPresent();
                    assertThat(server.info("keyspace", "db3:keys=")).isPositive();
                    assertThat(server.command("CLIENT LIST")).contains("name=app", "user=app");
                    registry.obtain("a").unlock();
                });
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void aPasswordWithoutAUser(String library) {
        server = new ServerProcess();
        server.command("CONFIG SET requirepass secret");
        on(library).withPropertyValues(HOST, port(server), "spring.data.redis.password=secret").run(context ->
                assertThat(context.getBean(Locks.class).lock("a").tryLock(20, TimeUnit.SECONDS)).isTrue());
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void whatIsHeldWhenTheApplicationEndsIsReleased(String library) {
        server = new ServerProcess();
        on(library).withPropertyValues(HOST, port(server)).run(context ->
                held.add(context.getBean(Locks.class).lock("a").acquireHold()));
        assertThat(server.command("EXISTS a")).isEqualTo("0");
        assertThat(server.command("CLIENT LIST").lines()).hasSize(1);
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void aCluster(String library) {
        try (ClusterProcesses cluster = new ClusterProcesses(3)) {
            on(library).withPropertyValues("spring.data.redis.cluster.nodes=" + ServerProcess.HOST + ":"
                    + cluster.ports().get(0)).run(context -> {
                        for (int i = 0; i < 20; i++) {
                            held.add(context.getBean(Locks.class).lock("key" + i).acquireHold());
                        }
                        assertThat(keys(cluster)).isEqualTo(20);
                    });
            assertThat(keys(cluster)).isZero();
        }
    }

    private static long keys(ClusterProcesses cluster) {
        return cluster.nodes().stream().mapToLong(node -> node.info("keyspace", "db0:keys=")).sum();
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void aMasterOfSentinel(String library) throws IOException, InterruptedException {
        server = new ServerProcess();
        int port = ServerProcess.freePort();
        Path file = Path.of(System.getProperty("lockso.folder"), "sentinel-" + port + ".conf");
        Files.writeString(file, "port " + port + "\nsentinel monitor main " + ServerProcess.HOST + " " + server.port()
                + " 1\n");
        Process sentinel = new ProcessBuilder(System.getProperty("lockso.server"), file.toString(), "--sentinel")
                .redirectErrorStream(true)
                .redirectOutput(new File(file + ".log"))
                .start();
        try {
            on(library).withPropertyValues("spring.data.redis.sentinel.master=main",
                    "spring.data.redis.sentinel.nodes=" + ServerProcess.HOST + ":" + port,
                    "spring.data.redis.database=2").run(context -> {
                        Conditions.await(() -> isLocked(context.getBean(Locks.class)));
                        assertThat(server.info("keyspace", "db2:keys=")).isEqualTo(1);
                    });
        } finally {
            sentinel.destroy();
            sentinel.waitFor();
        }
    }

    /** False until Sentinel is there. */
    private static boolean isLocked(Locks locks) {
        try {
            return locks.lock("a").tryLock();
        } catch (RuntimeException e) {
            return false;
        }
    }

    @Test
    void beansOfTheApplicationArePreferred() {
        runner.withBean("mine", LockProvider.class, () -> configuration -> Optional.empty())
                .withBean(DefaultLockRegistry.class)
                .run(context -> {
                    assertThat(context).hasSingleBean(Locks.class);
                    assertThat(context).doesNotHaveBean(DistributedLockProvider.class);
                    assertThat(context).doesNotHaveBean(DistributedLockRegistry.class);
                });
    }

    @Test
    void aFrameworkThatIsNotThereIsNotNeeded() {
        runner.withClassLoader(new FilteredClassLoader("net.javacrumbs", "org.springframework.integration"))
                .run(context -> {
                    assertThat(context).hasNotFailed().hasSingleBean(Locks.class);
                    assertThat(context).doesNotHaveBean("lockProvider");
                    assertThat(context).doesNotHaveBean("lockRegistry");
                });
    }

    @Test
    void allThreeAreCreatedWithoutAServer() {
        runner.run(context -> assertThat(context).hasSingleBean(Locks.class)
                .hasSingleBean(LockProvider.class)
                .hasSingleBean(LockRegistry.class));
    }
}
