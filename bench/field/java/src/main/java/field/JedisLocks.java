package field;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.util.SafeEncoder;

/** Locks by Jedis without a lock library: the commands of lock.so, and SET NX PX with a script or DEL. */
final class JedisLocks implements Library {
    /** The pause between two tries where polling is the only way to wait: the same as in redis-py's Lock. */
    private static final int PAUSE_MS = 100;
    private static final String COMPARE_AND_DELETE =
            "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    private static final ProtocolCommand RELEASE = command("LOCK.RELEASE");

    private final RedisClient client;
    private final int leaseMs;
    private final String way;
    private final String script;

    /** Each waiter has a connection; the pool is large enough for all. */
    JedisLocks(int port, int workers, int leaseMs, String way) {
        ConnectionPoolConfig pool = new ConnectionPoolConfig();
        pool.setMaxTotal(workers + 2);
        pool.setMaxIdle(workers + 2);
        pool.setMaxWait(Duration.ofSeconds(60));
        this.client = RedisClient.builder().hostAndPort("127.0.0.1", port).poolConfig(pool).build();
        this.leaseMs = leaseMs;
        this.way = way;
        this.script = way.equals("setnx") ? client.scriptLoad(COMPARE_AND_DELETE) : null;
    }

    private static ProtocolCommand command(String name) {
        byte[] raw = SafeEncoder.encode(name);
        return () -> raw;
    }

    @Override
    public Worker worker(String kind, int limit) {
        return way.equals("lock") ? new Ours(kind, limit) : new Bare();
    }

    @Override
    public void closeLatch(String name) {
        client.sendCommand(command("LATCH.SET"), name, "1");
    }

    @Override
    public void openLatch(String name) {
        client.sendCommand(command("LATCH.DOWN"), name);
    }

    private final class Ours implements Worker {
        private final ProtocolCommand command;
        private final String kind;
        private final int limit;
        private String owner;

        Ours(String kind, int limit) {
            this.kind = kind;
            this.limit = limit;
            this.command = command(switch (kind) {
                case "fair" -> "LOCK.FAIR";
                case "read" -> "LOCK.RWREAD";
                case "write" -> "LOCK.RWWRITE";
                case "semaphore" -> "LOCK.SEMAPHORE";
                case "latch" -> "LATCH.WAIT";
                default -> "LOCK.ACQUIRE";
            });
        }

        @Override
        public void acquire(String name) {
            acquireWithin(name, 0);
        }

        /** The read timeout is off while a command blocks. */
        @Override
        public boolean acquireWithin(String name, long milliseconds) {
            List<String> words = new ArrayList<>();
            words.add(name);
            if (!kind.equals("latch")) {
                owner = UUID.randomUUID().toString();
                words.add(owner);
                if (kind.equals("semaphore")) {
                    words.add(Integer.toString(limit));
                }
                words.addAll(kind.equals("session") ? List.of("SESSION") : List.of("PX", Integer.toString(leaseMs)));
            }
            words.add("BLOCK");
            words.add(Long.toString(milliseconds));
            return client.sendBlockingCommand(command, words.toArray(new String[0])) != null;
        }

        @Override
        public void release(String name) {
            client.sendCommand(RELEASE, name, owner);
        }
    }

    private final class Bare implements Worker {
        private String owner;

        @Override
        public void acquire(String name) throws InterruptedException {
            owner = UUID.randomUUID().toString();
            while (client.set(name, owner, SetParams.setParams().nx().px(leaseMs)) == null) {
                Thread.sleep(PAUSE_MS);
            }
        }

        @Override
        public boolean acquireWithin(String name, long milliseconds) {
            throw new UnsupportedOperationException("not offered");
        }

        @Override
        public void release(String name) {
            if (script == null) {
                client.del(name);
            } else {
                client.evalsha(script, List.of(name), List.of(owner));
            }
        }
    }
}
