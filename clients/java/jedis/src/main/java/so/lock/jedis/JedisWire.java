package so.lock.jedis;

import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import redis.clients.jedis.Connection;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.providers.ClusterConnectionProvider;
import redis.clients.jedis.util.JedisClusterCRC16;
import so.lock.internal.Line;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;
import so.lock.internal.Wire;

/** Connections of Jedis that are in no pool. */
abstract class JedisWire implements Wire {
    private static final String ONLY = "the only one";

    abstract Connection connect(String node) throws Exception;

    @Override
    public String node(String key) {
        return ONLY;
    }

    @Override
    public Line open(String node, long timeout) throws LinkException, ServerException {
        try {
            return new JedisLine(connect(node));
        } catch (JedisDataException e) {
            throw new ServerException(e.getMessage());
        } catch (RuntimeException e) {
            throw new LinkException(e);
        } catch (Exception e) {
            throw new LinkException(new JedisConnectionException(e));
        }
    }

    @Override
    public RuntimeException failure(String text) {
        return new JedisConnectionException(text);
    }

    /** One server. */
    static final class Single extends JedisWire {
        private static final Pattern ADDRESS = Pattern.compile("(?:\\{| to )([^{} ]+:[0-9]+)[}.]");

        private final Callable<Connection> opening;
        private volatile String address;

        /** @param address null if it is not known before there was a connection */
        Single(Callable<Connection> opening, String address) {
            this.opening = opening;
            this.address = address;
        }

        /** In all versions of Jedis, only the text of a connection, or of its failure, shows the address. */
        @Override
        Connection connect(String node) throws Exception {
            try {
                Connection connection = opening.call();
                findAddress(connection.toString());
                return connection;
            } catch (JedisConnectionException e) {
                findAddress(e.toString());
                throw e;
            }
        }

        private void findAddress(String text) {
            Matcher found = ADDRESS.matcher(text);
            if (found.find()) {
                address = found.group(1);
            }
        }

        @Override
        public String name() {
            return address;
        }

        @Override
        public String address(String node) {
            return address == null ? "the server" : address;
        }
    }

    /** The master, whose address is queried from the Sentinels for each connection. */
    static final class Sentinel extends JedisWire {
        private final String master;
        private final JedisClientConfig config;
        private final Set<HostAndPort> sentinels;
        private final JedisClientConfig sentinelConfig;
        private volatile String address;

        Sentinel(String master, JedisClientConfig config, Set<HostAndPort> sentinels, JedisClientConfig sentinelConfig) {
            this.master = master;
            this.address = "the master " + master;
            this.config = config;
            this.sentinels = sentinels;
            this.sentinelConfig = sentinelConfig;
        }

        @Override
        Connection connect(String node) {
            JedisException failure = new JedisConnectionException("no Sentinel knows the master " + master);
            for (HostAndPort sentinel : sentinels) {
                try (Jedis jedis = new Jedis(sentinel, sentinelConfig)) {
                    List<String> found = jedis.sentinelGetMasterAddrByName(master);
                    if (found != null) {
                        address = found.get(0) + ":" + found.get(1);
                        return new Connection(HostAndPort.from(address), config);
                    }
                } catch (JedisConnectionException e) {
                    failure = e;
                }
            }
            throw failure;
        }

        @Override
        public String name() {
            return master;
        }

        @Override
        public boolean isOneServer() {
            return false;
        }

        /** The last address. */
        @Override
        public String address(String node) {
            return address;
        }
    }

    /** A cluster; the provider is used for its slots only. */
    static final class Cluster extends JedisWire {
        private final Set<HostAndPort> nodes;
        private final JedisClientConfig config;
        private volatile ClusterConnectionProvider slots; // its constructor connects

        Cluster(Set<HostAndPort> nodes, JedisClientConfig config) {
            this.nodes = nodes;
            this.config = config;
        }

        @Override
        public String node(String key) {
            HostAndPort node = slots == null ? null : slots.getNode(JedisClusterCRC16.getSlot(key));
            return node == null ? null : node.toString();
        }

        @Override
        public String address(String node) {
            return node.isEmpty() ? name() : node;
        }

        @Override
        public String name() {
            return nodes.stream().map(HostAndPort::toString).min(Comparator.naturalOrder()).orElse("");
        }

        @Override
        public boolean isOneServer() {
            return false;
        }

        @Override
        public int slot(String key) {
            return JedisClusterCRC16.getSlot(key);
        }

        @Override
        Connection connect(String node) {
            return new Connection(HostAndPort.from(node), config);
        }

        @Override
        public void refresh() throws LinkException {
            try {
                if (slots == null) {
                    slots = new ClusterConnectionProvider(nodes, config);
                } else {
                    slots.renewSlotCache();
                }
            } catch (JedisException e) {
                throw new LinkException(e); // no node replied
            }
        }

        @Override
        public void close() {
            if (slots != null) {
                slots.close();
            }
        }
    }
}
