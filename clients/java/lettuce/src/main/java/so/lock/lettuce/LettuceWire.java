package so.lock.lettuce;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.MaintNotificationsConfig;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisConnectionException;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.resource.ClientResources;
import java.time.Duration;
import java.util.Comparator;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import so.lock.internal.Line;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;
import so.lock.internal.Wire;

/** Connections of Lettuce that are not shared, and that Lettuce never reconnects by itself. */
class LettuceWire implements Wire {
    private static final Duration SHORT = Duration.ofSeconds(2);
    private static final String ONLY = "the only one";

    private final RedisClient redis;
    private final RedisURI uri;
    private final Set<CompletableFuture<Void>> closings = ConcurrentHashMap.newKeySet();

    /** @param uri the server, or the Sentinels and a master, whose address Lettuce queries for each connection */
    LettuceWire(ClientResources resources, ClientOptions options, RedisURI uri) {
        this.redis = RedisClient.create(resources);
        this.uri = uri;
        ClientOptions.Builder ours = options.mutate()
                .autoReconnect(false)
                .timeoutOptions(TimeoutOptions.builder().timeoutCommands(false).build());
        try {
            Maintenance.ignore(ours);
        } catch (NoClassDefFoundError e) {
            assert e.getMessage() != null; // Lettuce 6 has no such notifications
        }
        redis.setOptions(ours.build());
    }

    /** A class of its own, because Lettuce 6 does not have the class that it uses. */
    private static final class Maintenance {
        static void ignore(ClientOptions.Builder options) {
            options.maintNotificationsConfig(MaintNotificationsConfig.disabled());
        }
    }

    @Override
    public String node(String key) {
        return ONLY;
    }

    @Override
    public Line open(String node, long timeout) throws LinkException, ServerException {
        CompletableFuture<StatefulRedisConnection<String, String>> connecting =
                redis.connectAsync(StringCodec.UTF8, limited(uri(node), timeout)).toCompletableFuture();
        try {
            return new LettuceLine(connecting.copy().orTimeout(timeout, TimeUnit.NANOSECONDS).join(), this);
        } catch (CompletionException e) {
            connecting.thenAccept(this::close);
            throw failure(e.getCause() instanceof TimeoutException ? failure("no connection in time") : e.getCause());
        }
    }

    /** With a time limit for the handshakes with the server and with each Sentinel: some of these may be silent. */
    private static RedisURI limited(RedisURI uri, long timeout) {
        Duration each = Duration.ofNanos(timeout / (uri.getSentinels().size() + 1));
        RedisURI.Builder limited = RedisURI.builder(uri).withTimeout(each);
        if (uri.getSentinelMasterId() != null) {
            limited.withSentinelMasterId(uri.getSentinelMasterId());
            uri.getSentinels().forEach(limited::withSentinel);
        }
        return limited.build();
    }

    RedisURI uri(String node) {
        return uri;
    }

    @Override
    public String address(String node) {
        return uri.getSentinelMasterId() != null ? "the master " + name() : name();
    }

    @Override
    public String name() {
        if (uri.getSentinelMasterId() != null) {
            return uri.getSentinelMasterId();
        }
        return uri.getSocket() != null ? uri.getSocket() : address(uri);
    }

    @Override
    public boolean isOneServer() {
        return uri.getSentinelMasterId() == null;
    }

    private static String address(RedisURI uri) {
        return uri.getHost() + ":" + uri.getPort();
    }

    @Override
    public RuntimeException failure(String text) {
        return new RedisConnectionException(text);
    }

    void close(StatefulRedisConnection<String, String> connection) {
        CompletableFuture<Void> closing = connection.closeAsync();
        closings.add(closing);
        closing.whenComplete((nothing, failure) -> closings.remove(closing));
    }

    @Override
    public void close() {
        CompletableFuture.allOf(closings.toArray(CompletableFuture[]::new))
                .completeOnTimeout(null, SHORT.toMillis(), TimeUnit.MILLISECONDS)
                .join();
        redis.shutdown(Duration.ZERO, SHORT);
    }

    /**
     * Throws error replies of the server, also those that caused the failure of a connection, and returns all others.
     */
    static LinkException failure(Throwable failure) throws ServerException {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (cause instanceof RedisCommandExecutionException) {
                throw new ServerException(cause.getMessage());
            }
        }
        return new LinkException(failure instanceof RuntimeException e ? e : new RedisException(failure));
    }

    /** A cluster, whose slots the user's client knows. */
    static final class Cluster extends LettuceWire {
        private final RedisClusterClient cluster;
        private volatile boolean known; // getPartitions blocks the first time

        Cluster(RedisClusterClient cluster, ClientOptions options) {
            super(cluster.getResources(), options, null);
            this.cluster = cluster;
        }

        @Override
        public String node(String key) {
            RedisClusterNode node =
                    known ? cluster.getPartitions().getPartitionBySlot(SlotHash.getSlot(key)) : null;
            return node == null ? null : LettuceWire.address(node.getUri());
        }

        @Override
        public String address(String node) {
            return node.isEmpty() ? "the cluster" : node;
        }

        /** Lettuce does not expose the nodes that are configured. */
        @Override
        public String name() {
            return known
                    ? cluster.getPartitions().stream()
                            .map(node -> LettuceWire.address(node.getUri()))
                            .min(Comparator.naturalOrder())
                            .orElse("")
                    : null;
        }

        @Override
        public boolean isOneServer() {
            return false;
        }

        @Override
        public int slot(String key) {
            return SlotHash.getSlot(key);
        }

        /** A node that a redirection names has the settings of any other. */
        @Override
        RedisURI uri(String node) {
            int colon = node.lastIndexOf(':');
            return RedisURI.builder(cluster.getPartitions().getPartition(0).getUri())
                    .withHost(node.substring(0, colon))
                    .withPort(Integer.parseInt(node.substring(colon + 1)))
                    .build();
        }

        @Override
        public void refresh() throws LinkException {
            try {
                if (known) {
                    cluster.refreshPartitions();
                } else {
                    cluster.getPartitions();
                    known = true;
                }
            } catch (RedisException e) {
                throw new LinkException(e); // no node replied
            }
        }
    }
}
