package so.lock.conformance;

import com.google.gson.JsonObject;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisServerCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.sync.RedisClusterCommands;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import so.lock.Locks;
import so.lock.lettuce.LettuceLocks;

final class LettuceFlavour implements Flavour {
    private static final String HOST = "127.0.0.1";

    @Override
    public User connect(JsonObject to, int pool) {
        return switch (to.get("kind").getAsString()) {
            case "cluster" -> cluster(Flavour.ports(to));
            case "sentinel" -> master(sentinels(to.get("master").getAsString(), Flavour.ports(to)));
            default -> master(RedisURI.create(HOST, to.get("port").getAsInt()));
        };
    }

    private static User master(RedisURI uri) {
        RedisClient client = RedisClient.create(uri);
        return new LettuceUser(client, new Lazy(() -> client.connect().sync()), () -> LettuceLocks.of(client, uri));
    }

    private static User cluster(List<Integer> ports) {
        RedisClusterClient client =
                RedisClusterClient.create(ports.stream().map(port -> RedisURI.create(HOST, port)).toList());
        client.getPartitions();
        return new LettuceUser(client, new Lazy(() -> client.connect().sync()), () -> LettuceLocks.of(client));
    }

    private static RedisURI sentinels(String master, List<Integer> ports) {
        RedisURI.Builder builder = RedisURI.builder().withSentinelMasterId(master);
        ports.forEach(port -> builder.withSentinel(HOST, port));
        return builder.build();
    }

    /** The server may be away when the client is created; then it is connected when it is first used. */
    private static final class Lazy implements Supplier<RedisClusterCommands<String, String>> {
        private final Supplier<RedisClusterCommands<String, String>> connecting;
        private RedisClusterCommands<String, String> commands;

        Lazy(Supplier<RedisClusterCommands<String, String>> connecting) {
            this.connecting = connecting;
            // As a program's client: it is connected, unless the server is away.
            CompletableFuture.runAsync(this::get)
                    .exceptionally(away -> null)
                    .completeOnTimeout(null, 2, TimeUnit.SECONDS)
                    .join();
        }

        @Override
        public synchronized RedisClusterCommands<String, String> get() {
            if (commands == null) {
                commands = connecting.get();
            }
            return commands;
        }
    }

    private record LettuceUser(AbstractRedisClient client, Lazy commands, Supplier<Locks> maker, Locks locks)
            implements User {
        LettuceUser(AbstractRedisClient client, Lazy commands, Supplier<Locks> maker) {
            this(client, commands, maker, maker.get());
        }

        @Override
        public Locks fresh() {
            return maker.get();
        }

        @Override
        public String get(String key) {
            return commands.get().get(key);
        }

        @Override
        public void set(String key, String value) {
            commands.get().set(key, value);
        }

        @Override
        public void ping() {
            commands.get().ping();
        }

        @Override
        public void pop(String key) {
            commands.get().blpop(0, key);
        }

        @Override
        public void push(String key, String value) {
            commands.get().rpush(key, value);
        }

        @Override
        public int blocked() {
            RedisServerCommands<String, String> server = commands.get();
            return Flavour.blocked(server.info("clients"));
        }

        @Override
        public void close() {
            locks.close();
            client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        }
    }
}
