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
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
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
    private static final int OPENING = 256; // of a node, at the same time
    private static final int OPENING_SHORT = 16; // of these, for short commands
    private static final long BUSY = 20_000_000; // ns
    private static final long SHORT = 100_000_000; // ns: the time of a try
    private static final long SLOW = 1_000_000_000; // ns
    private static final long REFRESHED = 500_000_000; // ns

    /** An open connection. */
    static final class Connection {
        final Node node;
        final Line line;
        /** When its last command ended, or it was opened, by nanoTime. */
        volatile long used = System.nanoTime();
        /** Who the server is; null if that was not needed yet. */
        volatile Servers.Identity identity;
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
        private final Purpose shortOnes = new Purpose(lock.newCondition());
        private final Purpose waits = new Purpose(lock.newCondition());
        private final Deque<Connection> idle = new ArrayDeque<>(); // empty if there is no reserved one
        private final Deque<Long> opening = new ArrayDeque<>(); // when that began
        private Connection reserved;
        private boolean reservedInUse;
        private boolean expiring; // whether the clock looks at the idle ones
        private Exception failure;
        private long failureBegan;

        Node(String name) {
            this.name = name;
        }

        private Connection poll(boolean isShort) {
            Connection found = idle.pollLast();
            if (found == null && isShort && reserved != null && !reservedInUse) {
                reservedInUse = true;
                found = reserved;
            }
            return found;
        }

        private void signalAll() {
            shortOnes.changed.signalAll();
            waits.changed.signalAll();
        }
    }

    /** The commands of one kind that wait for a connection. */
    private static final class Purpose {
        final Condition changed;
        int wanted;

        Purpose(Condition changed) {
            this.changed = changed;
        }
    }

    long idleLimit = TimeUnit.SECONDS.toNanos(10); // in ns, after which an idle connection is closed
    volatile long connectTimeout = TimeUnit.SECONDS.toNanos(5); // in ns
    volatile boolean connected; // whether there was ever a connection
    volatile boolean closed;

    private final Wire wire;
    private final Workers workers;
    private final Map<String, Node> nodes = new ConcurrentHashMap<>();
    private final Set<Connection> open = ConcurrentHashMap.newKeySet();
    private final Set<String> outages = ConcurrentHashMap.newKeySet(); // of nodes, which were logged
    private CompletableFuture<Void> refreshing = CompletableFuture.completedFuture(null);
    private long refreshed = System.nanoTime() - REFRESHED;

    /** Connections are opened on threads of the workers, because a library may not allow an interrupt of that. */
    Connections(Wire wire, Workers workers) {
        this.wire = wire;
        this.workers = workers;
    }

    String address(String node) {
        return wire.address(node);
    }

    LinkException failure(String text) {
        return new LinkException(wire.failure(text));
    }

    /** The name of the node that serves a key, as far as it is known now; otherwise empty. */
    String knownNode(String key) {
        String node = wire.node(key);
        return node == null ? "" : node;
    }

    /** Whether all connections lead to one server. */
    boolean isOneServer() {
        return wire.isOneServer();
    }

    /** The slot of a key in a cluster; otherwise 0. */
    int slot(String key) {
        return wire.slot(key);
    }

    /** The name by which the servers of all programs are ordered; it may be known only after connecting. */
    String name(LockName lock, String key, Attempt attempt) throws LinkException, ServerException, InterruptedException {
        if (wire.name() == null) {
            Call call = new Call(this, key, true, lock, null, List.of());
            Supplier<Call.Command> ping = () -> Call.within(List.of("PING"), attempt.until() + Call.GRACE);
            try {
                if (attempt.interruptible()) {
                    call.send(ping, attempt.until(), call::disconnect);
                } else {
                    Call.uninterrupted(() -> call.send(ping, attempt.until(), null));
                }
            } catch (LinkException e) {
                if (attempt.interruptible() && Thread.interrupted()) {
                    throw new InterruptedException();
                }
                throw e;
            } finally {
                call.giveBack();
            }
        }
        String name = wire.name();
        if (name == null) {
            throw failure("the address of the server is not known, by which locks of several servers are ordered");
        }
        return name;
    }

    /** The name of the node that serves a key; if it is not known, it is queried until then. */
    String node(String key, long until) throws LinkException, InterruptedException {
        String node = wire.node(key);
        if (node == null) {
            try {
                refresh(false).get(until - System.nanoTime(), TimeUnit.NANOSECONDS);
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

    /**
     * Queries which node serves which slot, in the background.
     *
     * @param atOnce whether it is known that this has changed; otherwise it is queried only once in a while
     */
    synchronized CompletableFuture<Void> refresh(boolean atOnce) {
        if (!refreshing.isDone() || !atOnce && System.nanoTime() - refreshed < REFRESHED) {
            return refreshing;
        }
        CompletableFuture<Void> begun = new CompletableFuture<>();
        refreshing = begun;
        begun.whenComplete((nothing, failure) -> {
            synchronized (this) {
                refreshed = System.nanoTime();
            }
        });
        try {
            workers.help(() -> {
                try {
                    wire.refresh();
                    begun.complete(null);
                } catch (LinkException | RuntimeException | Error e) {
                    begun.completeExceptionally(e);
                }
            });
        } catch (Error e) { // no thread can be created
            begun.completeExceptionally(e);
        }
        return begun;
    }

    /**
     * Takes a connection, which is opened if none is idle. One that arrives too late is kept for another command.
     *
     * @param isShort whether it may be the reserved one; for others that one is opened first
     */
    Connection take(String name, boolean isShort, long until)
            throws LinkException, ServerException, InterruptedException {
        Node node = nodes.computeIfAbsent(name, Node::new);
        node.lock.lock();
        try {
            Connection found = node.poll(isShort);
            return found != null ? found : await(node, isShort, until);
        } finally {
            openSome(node); // it may have taken one that was opened for another command
            node.lock.unlock();
        }
    }

    private Connection await(Node node, boolean isShort, long until)
            throws LinkException, ServerException, InterruptedException {
        Purpose purpose = isShort ? node.shortOnes : node.waits;
        long start = System.nanoTime();
        int wants = 0;
        try {
            while (true) {
                Connection found = node.poll(isShort);
                if (found != null) {
                    return found;
                }
                boolean reserved = isShort && node.reserved != null; // it may be free soon
                long now = System.nanoTime();
                boolean failed = node.failure != null && node.failureBegan - start >= 0;
                if (closed) {
                    throw failure(Texts.CLOSED);
                } else if (failed && (!reserved || now - until >= 0)) {
                    if (node.failure instanceof ServerException e) {
                        throw e;
                    }
                    throw (LinkException) node.failure;
                } else if (now - until >= 0) {
                    // In so short a time the server could not have replied: what it did before says more.
                    if (until - start <= SHORT && node.failure instanceof LinkException earlier) {
                        throw earlier;
                    }
                    String within = Texts.seconds(TimeUnit.NANOSECONDS.toMillis(now - start)) + " s";
                    throw failure("no connection to " + address(node.name) + " within " + within);
                }
                boolean soon = reserved && now - start < BUSY;
                purpose.wanted -= wants;
                wants = failed || soon ? 0 : 1;
                purpose.wanted += wants;
                openSome(node);
                purpose.changed.awaitNanos(Math.min(until - now, soon ? BUSY - (now - start) : SLOW));
            }
        } finally {
            purpose.wanted -= wants;
        }
    }

    /** Opens as many as are wanted. One that takes long does not count any more: its packets may be lost. */
    private void openSome(Node node) {
        int free = node.idle.size() + (node.reserved != null && !node.reservedInUse && node.shortOnes.wanted > 0 ? 1 : 0);
        int enough = Math.min(node.shortOnes.wanted, OPENING_SHORT) + node.waits.wanted - free;
        if (enough <= 0 || closed) {
            return;
        }
        if (node.reserved == null && node.waits.wanted > 0) {
            enough++;
        }
        long now = System.nanoTime();
        long begun = node.opening.stream().filter(began -> now - began < SLOW).count();
        for (; begun < enough && node.opening.size() < OPENING; begun++) {
            node.opening.add(now);
            try {
                workers.help(() -> open(node, now));
            } catch (Error e) { // no thread can be created
                opened(node, now, null, new LinkException(new IllegalStateException(e)));
                return;
            }
        }
    }

    private void open(Node node, long began) {
        Connection opened = null;
        Exception failure = null;
        try {
            opened = new Connection(node, wire.open(node.name, connectTimeout));
            connected = true;
            open.add(opened);
        } catch (LinkException e) {
            failure = e;
        } catch (ServerException e) {
            failure = e.isTransient() ? failure(e.getMessage()) : e;
        } catch (RuntimeException | Error e) {
            failure = new LinkException(e instanceof RuntimeException known ? known : new IllegalStateException(e));
        }
        opened(node, began, opened, failure);
        if (failure instanceof LinkException) {
            refresh(false);
        }
    }

    private void opened(Node node, long began, Connection opened, Exception failure) {
        node.lock.lock();
        try {
            node.opening.remove(began);
            if (opened != null) {
                keep(opened);
                openSome(node);
            } else {
                node.failure = failure;
                node.failureBegan = began;
                node.signalAll();
            }
        } finally {
            node.lock.unlock();
        }
    }

    /** Keeps a connection for the next command. */
    void keep(Connection connection) {
        Node node = connection.node;
        node.lock.lock();
        try {
            if (closed || connection.closed) {
                drop(connection);
            } else if (node.reserved == null || node.reserved == connection) {
                node.reserved = connection;
                node.reservedInUse = false;
                node.shortOnes.changed.signal();
            } else if (node.idle.size() < KEPT + node.shortOnes.wanted + node.waits.wanted) {
                node.idle.addLast(connection);
                (node.lock.hasWaiters(node.shortOnes.changed) ? node.shortOnes : node.waits).changed.signal();
                if (!node.expiring) {
                    expireAt(node, connection.used + idleLimit);
                }
            } else {
                drop(connection);
            }
        } finally {
            node.lock.unlock();
        }
    }

    private void expireAt(Node node, long time) {
        node.expiring = true;
        workers.clock.at(time, () -> expire(node));
    }

    /** Closes what was idle for too long: a firewall may have forgotten it. */
    private void expire(Node node) {
        node.lock.lock();
        try {
            node.expiring = false;
            for (Connection oldest = node.idle.peekFirst(); oldest != null; oldest = node.idle.peekFirst()) {
                if (System.nanoTime() - oldest.used < idleLimit) {
                    expireAt(node, oldest.used + idleLimit);
                    return;
                }
                drop(oldest);
            }
        } finally {
            node.lock.unlock();
        }
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
        try {
            connection.line.close();
        } catch (RuntimeException e) {
            Locks.LOG.log(Level.DEBUG, "a connection to " + address(node.name) + " was not closed", e);
        }
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
    void warnOfOutage(LockName lock, String node, LinkException e) {
        if (!closed && outages.add(node)) {
            Locks.LOG.log(
                    Level.WARNING,
                    lock + ": no connection to " + address(node) + " (" + e.getMessage() + "); the wait goes on");
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
