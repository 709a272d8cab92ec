package so.lock;

import java.lang.System.Logger.Level;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import so.lock.internal.Line;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;
import so.lock.internal.Wire;

/**
 * The connections of the locks, separate from those of the user's client. Each serves one command at a time; there are
 * as many as needed, so a release never queues behind a wait. One of each node is reserved for short commands, and is
 * open before a wait begins: an owner that acquires a lock must be able to release it at a full server.
 */
final class Connections {
    private static final int KEPT = 16; // idle ones of a node
    private static final int OPENING = 16; // of a node, at the same time
    private static final long BUSY = 20_000_000; // ns
    private static final long SLOW = 1_000_000_000; // ns
    private static final long NEW_OUTAGE = 60_000_000_000L; // ns

    /** An open connection. */
    static final class Connection {
        final Node node;
        final Line line;
        /** When its last command ended, or it was opened, by nanoTime. */
        volatile long used = System.nanoTime();
        private boolean closed;

        private Connection(Node node, Line line) {
            this.node = node;
            this.line = line;
        }
    }

    /** The connections of one node, which its lock protects. */
    static final class Node {
        final String name;
        private final ReentrantLock lock = new ReentrantLock();
        private final Condition idleOne = lock.newCondition();
        private final Condition idleOrReserved = lock.newCondition();
        private final Deque<Connection> idle = new ArrayDeque<>(); // empty if there is no reserved one
        private final Deque<Long> opening = new ArrayDeque<>(); // when that began
        private Connection reserved;
        private boolean reservedInUse;
        private int wanted; // by commands that wait for a connection
        private int wantedForWaits;
        private Exception failure;
        private long failureBegan;

        Node(String name) {
            this.name = name;
        }

        private Connection poll(boolean brief) {
            Connection found = idle.pollLast();
            if (found == null && brief && reserved != null && !reservedInUse) {
                reservedInUse = true;
                found = reserved;
            }
            return found;
        }

        private void signalAll() {
            idleOne.signalAll();
            idleOrReserved.signalAll();
        }
    }

    private final Wire wire;
    private final Executor helpers;
    private final Map<String, Node> nodes = new ConcurrentHashMap<>();
    private final Set<Connection> open = ConcurrentHashMap.newKeySet();
    private final Map<String, Long> outages = new ConcurrentHashMap<>();
    private final AtomicReference<CompletableFuture<Void>> refreshing = new AtomicReference<>();
    private volatile long connectTimeout = TimeUnit.SECONDS.toNanos(5);
    private volatile boolean connected;
    private volatile boolean closed;

    /** @param helpers where connections are opened, because a library may not allow an interrupt of that */
    Connections(Wire wire, Executor helpers) {
        this.wire = wire;
        this.helpers = helpers;
    }

    /** In ns. */
    void setConnectTimeout(long time) {
        connectTimeout = time;
    }

    long connectTimeout() {
        return connectTimeout;
    }

    /** Whether there was ever a connection. */
    boolean isConnected() {
        return connected;
    }

    boolean isClosed() {
        return closed;
    }

    String where(String node) {
        return wire.where(node);
    }

    LinkException failure(String text) {
        return new LinkException(wire.failure(text));
    }

    /** The name of the node that serves a key, as far as it is known now; otherwise empty. */
    String knownNode(String key) {
        String node = wire.node(key);
        return node == null ? "" : node;
    }

    /** The name of the node that serves a key; if it is not known, it is queried until then. */
    String node(String key, long until) throws LinkException, InterruptedException {
        String node = wire.node(key);
        if (node == null) {
            try {
                refresh().get(until - System.nanoTime(), TimeUnit.NANOSECONDS);
            } catch (ExecutionException e) {
                throw e.getCause() instanceof LinkException failure ? failure : failure(e.getCause().toString());
            } catch (TimeoutException e) {
                throw failure("the nodes of the cluster are not known in time");
            }
            node = wire.node(key);
        }
        if (node == null) {
            throw failure("no node is known for the slot of " + key);
        }
        return node;
    }

    /** Queries which node serves which slot, in the background. */
    CompletableFuture<Void> refresh() {
        CompletableFuture<Void> begun = new CompletableFuture<>();
        CompletableFuture<Void> other = refreshing.compareAndExchange(null, begun);
        if (other != null) {
            return other;
        }
        helpers.execute(() -> {
            try {
                wire.refresh();
            } catch (LinkException | RuntimeException e) {
                begun.completeExceptionally(e);
            } finally {
                refreshing.set(null);
                begun.complete(null);
            }
        });
        return begun;
    }

    /**
     * Takes a connection, which is opened if none is idle. One that arrives too late is kept for another command.
     *
     * @param brief whether it may be the reserved one; for others that one is opened first
     */
    Connection take(String name, boolean brief, long until)
            throws LinkException, ServerException, InterruptedException {
        Node node = nodes.computeIfAbsent(name, Node::new);
        node.lock.lock();
        try {
            Connection found = node.poll(brief);
            return found != null ? found : await(node, brief, until);
        } finally {
            node.lock.unlock();
        }
    }

    private Connection await(Node node, boolean brief, long until)
            throws LinkException, ServerException, InterruptedException {
        long start = System.nanoTime();
        boolean wants = false;
        try {
            while (true) {
                Connection found = node.poll(brief);
                if (found != null) {
                    return found;
                }
                boolean reserved = brief && node.reserved != null; // it may be free soon
                long now = System.nanoTime();
                boolean failed = node.failure != null && node.failureBegan - start >= 0;
                if (closed) {
                    throw failure(Texts.CLOSED);
                } else if (failed && (!reserved || now - until >= 0)) {
                    throwFailure(node);
                } else if (now - until >= 0) {
                    String within = Texts.seconds(TimeUnit.NANOSECONDS.toMillis(now - start)) + " s";
                    throw failure("no connection to " + where(node.name) + " within " + within);
                }
                long left = Math.min(until - now, SLOW);
                if (reserved && now - start < BUSY) {
                    left = Math.min(left, BUSY - (now - start));
                } else if (!failed) {
                    if (!wants) {
                        wants = true;
                        want(node, brief, 1);
                    }
                    openSome(node, now);
                }
                (brief ? node.idleOrReserved : node.idleOne).awaitNanos(left);
            }
        } finally {
            if (wants) {
                want(node, brief, -1);
            }
        }
    }

    private static void want(Node node, boolean brief, int change) {
        node.wanted += change;
        node.wantedForWaits += brief ? 0 : change;
    }

    private static void throwFailure(Node node) throws LinkException, ServerException {
        if (node.failure instanceof ServerException e) {
            throw e;
        }
        throw (LinkException) node.failure;
    }

    /** Opens as many as are wanted. One that takes long does not count any more: its packets may be lost. */
    private void openSome(Node node, long now) {
        int enough = node.wanted + (node.reserved == null && node.wantedForWaits > 0 ? 1 : 0);
        long begun = node.opening.stream().filter(began -> now - began < SLOW).count();
        for (; begun < enough && node.opening.size() < OPENING; begun++) {
            node.opening.add(now);
            helpers.execute(() -> open(node, now));
        }
    }

    private void open(Node node, long began) {
        Connection opened = null;
        Exception failure = null;
        try {
            opened = new Connection(node, wire.open(node.name, connectTimeout));
            connected = true;
            open.add(opened);
        } catch (LinkException | ServerException e) {
            failure = e;
        } catch (RuntimeException | Error e) {
            failure = new LinkException(e instanceof RuntimeException known ? known : new IllegalStateException(e));
        }
        node.lock.lock();
        try {
            node.opening.remove(began);
            if (failure != null) {
                node.failure = failure;
                node.failureBegan = began;
                node.signalAll();
            }
        } finally {
            node.lock.unlock();
        }
        if (opened != null) {
            keep(opened);
        } else if (failure instanceof LinkException) {
            refresh();
        }
    }

    /** Keeps a connection for the next command. */
    void keep(Connection connection) {
        Node node = connection.node;
        node.lock.lock();
        try {
            if (!closed && !connection.closed && (node.reserved == null || node.reserved == connection)) {
                node.reserved = connection;
                node.reservedInUse = false;
                node.idleOrReserved.signal();
                return;
            }
            if (!closed && !connection.closed && (node.idle.size() < KEPT || node.wanted > 0)) {
                node.idle.addLast(connection);
                (node.lock.hasWaiters(node.idleOrReserved) ? node.idleOrReserved : node.idleOne).signal();
                return;
            }
        } finally {
            node.lock.unlock();
        }
        drop(connection);
    }

    /** Closes a connection, once; null is ignored. */
    void drop(Connection connection) {
        if (connection == null) {
            return;
        }
        Node node = connection.node;
        node.lock.lock();
        try {
            if (connection.closed) {
                return;
            }
            connection.closed = true;
            open.remove(connection);
            node.idle.remove(connection);
            if (node.reserved == connection) {
                node.reserved = node.idle.pollFirst();
                node.reservedInUse = false;
                node.signalAll();
            }
        } finally {
            node.lock.unlock();
        }
        connection.line.close();
    }

    /**
     * Closes the idle connections of a node after a failure: they are dead too, or the node is no longer the master.
     */
    void forget(Node node) {
        node.lock.lock();
        List<Connection> idle;
        try {
            idle = List.copyOf(node.idle);
        } finally {
            node.lock.unlock();
        }
        idle.forEach(this::drop);
    }

    /** A wait goes on without a connection: warns once in each outage. */
    void warnOfOutage(String lock, String node, LinkException e) {
        if (connected && !closed) {
            long now = System.nanoTime();
            Long before = outages.put(node, now);
            if (before == null || now - before > NEW_OUTAGE) {
                String text = e.original().getMessage() == null ? e.original().toString() : e.original().getMessage();
                Locks.LOG.log(Level.WARNING,
                        lock + ": no connection to " + where(node) + " (" + text + "); the wait goes on");
            }
        }
    }

    /** There was a reply, or a connection that lasted. */
    void outageEnded(Node node) {
        if (!outages.isEmpty()) {
            outages.remove(node.name);
        }
    }

    /** Ends every wait and watch. */
    void close() {
        closed = true;
        for (Node node : nodes.values()) {
            node.lock.lock();
            node.signalAll();
            node.lock.unlock();
        }
        open.forEach(this::drop);
        wire.close();
    }
}
