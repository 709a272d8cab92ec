package so.lock;

import java.time.Duration;
import java.util.List;

/**
 * Locks on a majority of independent servers, by the RedLock algorithm: a lock is held if more than half of the servers
 * have granted it. Use it only where a lock must be available while any of the servers fails; see the documentation for
 * what it needs and what it cannot promise. Time is measured by {@link System#nanoTime}, which on Linux does not go on
 * while the machine is suspended. Any thread may use it; create one object for a program, over {@link Locks} that stay
 * open.
 */
public final class RedLock {
    private static final LockOptions DEFAULT = LockOptions.DEFAULT.withLease(Duration.ofSeconds(10));
    private static final int FEWEST = 3;

    private final Servers servers;
    private final String name;

    private RedLock(List<Locks> servers) {
        if (servers.size() < FEWEST) {
            throw new IllegalArgumentException("servers must be at least 3, not " + servers.size());
        }
        for (Locks one : servers) {
            if (!one.connections.isOneServer()) {
                throw new IllegalArgumentException("servers: a cluster or Sentinel's master is not one server");
            }
        }
        this.servers = new Servers(servers);
        this.name = "RedLock" + servers.stream().map(one -> "\0" + one.number).sorted().toList() + "\0";
    }

    /**
     * Over these servers, 3 at least. That they are different, masters, and not of one cluster, is checked when they are
     * first used, and with each new connection; otherwise an acquisition ends with IllegalArgumentException.
     */
    public static RedLock over(List<Locks> servers) {
        return new RedLock(List.copyOf(servers));
    }

    /** {@link #over(List)}. */
    public static RedLock over(Locks... servers) {
        return over(List.of(servers));
    }

    /** A lock with a lease of 10 seconds, which is renewed. */
    public DistributedLock lock(String key) {
        return lock(key, DEFAULT);
    }

    /**
     * A lock. Each hold has a fencing token: the largest one that the servers have issued. The lease should be short:
     * a server has a twentieth of it, 20 ms to 1 second, for its reply.
     *
     * @param options no session and no replicas
     */
    public DistributedLock lock(String key, LockOptions options) {
        if (options.session) {
            throw new IllegalArgumentException("session: a RedLock has no session");
        } else if (options.replicas > 0) {
            throw new IllegalArgumentException("replicas: a RedLock has no replicas");
        }
        Request request = Request.of(Request.Kind.LOCK, key, options.fenced());
        return new DistributedLock(Locks.first(servers.all().stream()), new Majority(servers, request), name + key, 0);
    }

    @Override
    public String toString() {
        return "RedLock" + servers.all();
    }
}
