package so.lock.jedis;

import java.util.List;
import java.util.Set;
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
    public String where(String node) {
        return node;
    }

    @Override
    public RuntimeException failure(String text) {
        return new JedisConnectionException(text);
    }

    @Override
    public void refresh() throws LinkException {}

    @Override
    public void close() {}

    /** One server. */
    static final class Single extends JedisWire {
        interface Opening {
            Connection connect() throws Exception;
        }

        private static final Pattern ADDRESS = Pattern.compile("\\{([^{}]+:[0-9]+)\\}");

        private final Opening opening;
        private volatile String where;

        /** @param where the address, as far as it is known before there was a connection */
        Single(Opening opening, String where) {
            this.opening = opening;
            this.where = where;
        }

        /** In all versions of Jedis, only the text of a connection shows the address. */
        @Override
        Connection connect(String node) throws Exception {
            Connection connection = opening.connect();
            Matcher address = ADDRESS.matcher(connection.toString());
            if (address.find()) {
                where = address.group(1);
            }
            return connection;
        }

        @Override
        public String where(String node) {
            return where;
        }
    }

    /** The master, whose address is queried from the Sentinels for each connection. */
    static final class Sentinel extends JedisWire {
        private final String master;
        private final JedisClientConfig config;
        private final Set<HostAndPort> sentinels;
        private final JedisClientConfig sentinelConfig;
        private volatile String where;

        Sentinel(String master, JedisClientConfig config, Set<HostAndPort> sentinels, JedisClientConfig sentinelConfig) {
            this.master = master;
            this.where = "the master " + master;
            this.config = config;
            this.sentinels = sentinels;
            this.sentinelConfig = sentinelConfig;
        }

        @Override
        Connection connect(String node) {
            JedisException failure = new JedisConnectionException("no Sentinel knows the master " + master);
            for (HostAndPort sentinel : sentinels) {
                try (Jedis jedis = new Jedis(sentinel, sentinelConfig)) {
                    List<String> address = jedis.sentinelGetMasterAddrByName(master);
                    if (address != null) {
                        where = address.get(0) + ":" + address.get(1);
                        return new Connection(HostAndPort.from(where), config);
                    }
                } catch (JedisConnectionException e) {
                    failure = e;
                }
            }
            throw failure;
        }

        /** The last address. */
        @Override
        public String where(String node) {
            return where;
        }
    }

    /** A cluster; the provider is used for its slots only. */
    static final class Cluster extends JedisWire {
        private final ClusterConnectionProvider slots;
        private final JedisClientConfig config;

        Cluster(Set<HostAndPort> nodes, JedisClientConfig config) {
            this.slots = new ClusterConnectionProvider(nodes, config);
            this.config = config;
        }

        @Override
        public String node(String key) {
            HostAndPort node = slots.getNode(JedisClusterCRC16.getSlot(key));
            return node == null ? null : node.toString();
        }

        @Override
        Connection connect(String node) {
            return new Connection(HostAndPort.from(node), config);
        }

        @Override
        public void refresh() throws LinkException {
            try {
                slots.renewSlotCache();
            } catch (JedisException e) {
                throw new LinkException(e); // no node replied
            }
        }

        @Override
        public void close() {
            slots.close();
        }
    }
}
