package so.lock.spring.boot;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.junit.jupiter.api.Test;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;
import org.springframework.integration.support.locks.LockRegistry;
import so.lock.LockOptions;
import so.lock.Locks;
import so.lock.ServerProcess;
import so.lock.shedlock.DistributedLockProvider;
import so.lock.spring.integration.DistributedLockRegistry;

/** The adapters and the frameworks' own providers for Redis in one run: {@code make bench-adapters-java}. */
class Comparison {
    private static final int ROUNDS = 100;
    private static final Duration WAITING = Duration.ofSeconds(10);
    private static final Duration AT_MOST = Duration.ofMinutes(1);

    /** Everything for one process. */
    private static final class Setup implements AutoCloseable {
        final LettuceConnectionFactory factory;
        final LettuceSource source;
        final Map<String, LockRegistry<?>> registries = new LinkedHashMap<>();
        final Map<String, LockProvider> providers = new LinkedHashMap<>();

        Setup(int port) {
            factory = new LettuceConnectionFactory(ServerProcess.HOST, port);
            factory.afterPropertiesSet();
            factory.start();
            source = new LettuceSource(factory);
            Locks locks = source.locks();
            RedisLockRegistry publishing = new RedisLockRegistry(factory, "pubsub");
            publishing.setRedisLockType(RedisLockType.PUB_SUB_LOCK);
            registries.put("RedisLockRegistry, SPIN_LOCK", new RedisLockRegistry(factory, "spin"));
            registries.put("RedisLockRegistry, PUB_SUB_LOCK", publishing);
            registries.put("DistributedLockRegistry", new DistributedLockRegistry(locks, "lease"));
            registries.put("DistributedLockRegistry, session",
                    new DistributedLockRegistry(locks, "session", LockOptions.DEFAULT.inSession()));
            providers.put("ShedLock RedisLockProvider", new RedisLockProvider(factory));
            providers.put("ShedLock DistributedLockProvider", new DistributedLockProvider(locks));
            providers.put("ShedLock DistributedLockProvider, session",
                    new DistributedLockProvider(locks, "shedlock-session:").inSession());
        }

        @Override
        public void close() {
            source.locks().close();
            source.destroy();
            factory.destroy();
        }
    }

    /** A process that acquires every lock and holds it until it is killed. */
    static final class Holder {
        public static void main(String[] arguments) throws IOException {
            Setup setup = new Setup(Integer.parseInt(arguments[0]));
            setup.registries.values().forEach(registry -> registry.obtain("killed").lock());
            setup.providers.values().forEach(provider -> provider.lock(task()).orElseThrow());
            System.out.println("held");
            System.in.read(); // until it is killed
            setup.close();
        }
    }

    private static LockConfiguration task() {
        return new LockConfiguration(Instant.now(), "killed", AT_MOST, Duration.ZERO);
    }

    private static double ms(long start) {
        return (System.nanoTime() - start) / 1e6;
    }

    @Test
    void compare() throws Exception {
        Map<String, String> lines = new LinkedHashMap<>();
        try (ServerProcess server = new ServerProcess();
                Setup one = new Setup(server.port());
                Setup other = new Setup(server.port())) {
            for (String name : one.registries.keySet()) {
                Lock first = one.registries.get(name).obtain("a");
                Lock second = other.registries.get(name).obtain("a");
                lines.put(name, String.format("%8.2f ms %8.1f /s", handoff(first, second), commands(server, first, second)));
            }
            one.providers.keySet().forEach(name -> lines.put(name, String.format("%11s %11s", "-", "-")));
            killed(server, one).forEach((name, time) -> lines.merge(name, String.format("%8.1f s", time), (a, b) -> a + b));
        }
        System.out.printf("%-42s %11s %11s %9s%n", "", "release to", "commands", "free after");
        System.out.printf("%-42s %11s %11s %9s%n", "", "grant, p50", "of a waiter", "kill -9");
        lines.forEach((name, line) -> System.out.printf("%-42s %s%n", name, line));
    }

    /** The median of the times from the release of a lock until another thread, with another registry, has it. */
    private static double handoff(Lock first, Lock second) throws Exception {
        double[] times = new double[ROUNDS];
        for (int i = -10; i < ROUNDS; i++) {
            first.lock();
            CompletableFuture<Long> granted = waiter(second);
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(ThreadLocalRandom.current().nextInt(50, 150)));
            long released = System.nanoTime();
            first.unlock();
            times[Math.max(i, 0)] = (granted.get() - released) / 1e6;
        }
        Arrays.sort(times);
        return times[ROUNDS / 2];
    }

    private static CompletableFuture<Long> waiter(Lock lock) {
        CompletableFuture<Long> granted = new CompletableFuture<>();
        new Thread(() -> {
            lock.lock();
            granted.complete(System.nanoTime());
            lock.unlock();
        }).start();
        return granted;
    }

    /** How many commands one waiter sends in a second. */
    private static double commands(ServerProcess server, Lock first, Lock second) throws Exception {
        first.lock();
        CompletableFuture<Long> granted = waiter(second);
        LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(1)); // until it has begun
        long before = server.info("stats", "total_commands_processed:");
        LockSupport.parkNanos(WAITING.toNanos());
        long after = server.info("stats", "total_commands_processed:");
        first.unlock();
        granted.get();
        return (after - before - 1) / (double) WAITING.toSeconds();
    }

    /** In how many seconds after its holder was killed each lock is acquired. */
    private static Map<String, Double> killed(ServerProcess server, Setup setup) throws Exception {
        Process holder = new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp",
                System.getProperty("java.class.path"), Holder.class.getName(), Integer.toString(server.port()))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        while (!"held".equals(holder.inputReader().readLine())) {
            if (!holder.isAlive()) {
                throw new IllegalStateException("the holder has not acquired the locks");
            }
        }
        Map<String, CompletableFuture<Double>> times = new LinkedHashMap<>();
        holder.destroyForcibly(); // SIGKILL
        long start = System.nanoTime();
        setup.registries.forEach((name, registry) -> times.put(name, measured(start, () -> {
            registry.obtain("killed").lock();
            return true;
        })));
        setup.providers.forEach((name, provider) ->
                times.put(name, measured(start, () -> provider.lock(task()).isPresent())));
        Map<String, Double> seconds = new LinkedHashMap<>();
        for (Map.Entry<String, CompletableFuture<Double>> time : times.entrySet()) {
            seconds.put(time.getKey(), time.getValue().get() / 1000);
        }
        return seconds;
    }

    private static CompletableFuture<Double> measured(long start, Supplier<Boolean> attempt) {
        CompletableFuture<Double> time = new CompletableFuture<>();
        new Thread(() -> {
            while (!attempt.get()) {
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(50));
            }
            time.complete(ms(start));
        }).start();
        return time;
    }
}
