package so.lock;

import java.lang.System.Logger.Level;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import so.lock.wire.Line;
import so.lock.wire.LinkException;
import so.lock.wire.ServerException;
import so.lock.wire.Wire;

/**
 * The connections of the locks, separate from those of the user's client. Each serves one command at a time; there are
 * as many as needed, so a release never queues behind a wait. Some idle ones are kept.
 */
final class Lines {
    private static final int KEPT = 16; // for each node

    private static final long BUSY_MS = 20;

    /** A node's connection for short commands. Only who has the permit uses it; null until it is open. */
    private static final class Reserve {
        final Semaphore permit = new Semaphore(1);
        volatile Line line;
    }

    final Wire wire;
    private final Map<String, Deque<Line>> idle = new HashMap<>();
    private final Map<String, Reserve> reserves = new ConcurrentHashMap<>();
    private final Map<Line, Reserve> reserved = new ConcurrentHashMap<>();
    private final Set<Line> open = ConcurrentHashMap.newKeySet();
    private final Set<String> outages = ConcurrentHashMap.newKeySet();
    private final Executor helpers;
    private volatile boolean connected;
    private volatile boolean closed;

    /** @param helpers where connections are opened, because a library may not allow an interrupt of that */
    Lines(Wire wire, Executor helpers) {
        this.wire = wire;
        this.helpers = helpers;
    }

    /** Whether there was ever a connection. */
    boolean isConnected() {
        return connected;
    }

    /** An idle connection, which the server may have closed; or null. */
    Line takeIdle(String node) {
        synchronized (idle) {
            Deque<Line> lines = idle.get(node);
            return lines == null ? null : lines.pollLast();
        }
    }

    /** An open connection for a short command, which the server may have closed; or null. */
    Line takeBrief(String node) {
        Line line = takeIdle(node);
        Reserve reserve = reserves.get(node);
        if (line != null || reserve == null || !reserve.permit.tryAcquire()) {
            return line;
        }
        line = reserve.line;
        if (line == null) {
            reserve.permit.release();
        }
        return line;
    }

    /**
     * A new connection for a short command. If the server refuses it, the one for short commands, when that is free.
     *
     * @param ns how long it may take
     */
    Line openBrief(String node, long ns) throws LinkException, ServerException, InterruptedException {
        Reserve reserve = reserves.computeIfAbsent(node, name -> new Reserve());
        if (reserve.permit.tryAcquire(BUSY_MS, TimeUnit.MILLISECONDS)) {
            return fill(reserve, node, ns);
        }
        try {
            return open(node, ns);
        } catch (LinkException e) {
            if (reserve.permit.tryAcquire(ns, TimeUnit.NANOSECONDS)) {
                return fill(reserve, node, ns);
            }
            throw e;
        }
    }

    /** Opens the connection for short commands: who acquires a lock must be able to release it at a full server. */
    void reserve(String node, long ns) throws LinkException, ServerException, InterruptedException {
        Reserve reserve = reserves.computeIfAbsent(node, name -> new Reserve());
        if (reserve.line == null) {
            if (!reserve.permit.tryAcquire(ns, TimeUnit.NANOSECONDS)) {
                throw new LinkException(wire.failure("no connection to " + wire.where(node) + " in time"));
            }
            fill(reserve, node, ns);
            reserve.permit.release();
        }
    }

    /** The caller has the permit, and keeps it if this succeeds. */
    private Line fill(Reserve reserve, String node, long ns)
            throws LinkException, ServerException, InterruptedException {
        Line line = reserve.line;
        try {
            if (line == null) {
                Line kept = takeIdle(node);
                line = kept != null ? kept : open(node, ns);
                reserved.put(line, reserve);
                reserve.line = line;
            }
            return line;
        } finally {
            if (line == null) {
                reserve.permit.release();
            }
        }
    }

    /** @param ns how long it may take; a connection that comes later is kept for another command */
    Line open(String node, long ns) throws LinkException, ServerException, InterruptedException {
        CompletableFuture<Line> opening = new CompletableFuture<>();
        helpers.execute(() -> open(node, opening));
        Line line;
        try {
            line = opening.get(ns, TimeUnit.NANOSECONDS);
        } catch (TimeoutException | InterruptedException e) {
            if (!opening.completeExceptionally(e) && !opening.isCompletedExceptionally()) {
                keep(node, opened(opening.join()));
            }
            if (e instanceof InterruptedException interrupted) {
                throw interrupted;
            }
            String within = Texts.seconds(TimeUnit.NANOSECONDS.toMillis(ns)) + " s";
            throw new LinkException(wire.failure("no connection to " + wire.where(node) + " within " + within));
        } catch (ExecutionException e) {
            throw failure(e.getCause());
        }
        opened(line);
        if (closed) {
            drop(line);
            throw new LinkException(wire.failure(Texts.CLOSED));
        }
        return line;
    }

    private Line opened(Line line) {
        connected = true;
        open.add(line);
        return line;
    }

    /** A wait goes on without a connection: warns once in each outage. */
    void warnOfOutage(String lock, String node, LinkException e) {
        if (connected && !closed && outages.add(node)) {
            String where = wire.where(node);
            Locks.LOG.log(Level.WARNING,
                    lock + ": no connection to " + where + " (" + e.original().getMessage() + "); the wait goes on");
        }
    }

    /** There was a reply, or a connection that lasted. */
    void outageEnded(String node) {
        if (!outages.isEmpty()) {
            outages.remove(node);
        }
    }

    private void open(String node, CompletableFuture<Line> opening) {
        try {
            Line line = wire.open(node);
            if (!opening.complete(line)) {
                keep(node, opened(line)); // it came too late for this command
            }
        } catch (LinkException | ServerException | RuntimeException e) {
            opening.completeExceptionally(e);
        }
    }

    private static LinkException failure(Throwable cause) throws ServerException {
        if (cause instanceof ServerException e) {
            throw e;
        }
        return cause instanceof LinkException e ? e : new LinkException((RuntimeException) cause);
    }

    /** Keeps a connection for the next command. */
    void keep(String node, Line line) {
        Reserve reserve = reserved.get(line);
        if (reserve != null) {
            reserve.permit.release();
            return;
        }
        synchronized (idle) {
            Deque<Line> lines = idle.computeIfAbsent(node, name -> new ArrayDeque<>());
            if (!closed && lines.size() < KEPT) {
                lines.addLast(line);
                return;
            }
        }
        drop(line);
    }

    /** Closes a connection, once; null is ignored. */
    void drop(Line line) {
        if (line != null && open.remove(line)) {
            line.close();
            Reserve reserve = reserved.remove(line);
            if (reserve != null) {
                reserve.line = null;
                reserve.permit.release();
            }
        }
    }

    /**
     * Closes the idle connections of a node after a failure: they are dead too, or the node is no longer the master.
     */
    void forget(String node) {
        Deque<Line> lines;
        synchronized (idle) {
            lines = idle.remove(node);
        }
        if (lines != null) {
            lines.forEach(this::drop);
        }
    }

    boolean isClosed() {
        return closed;
    }

    /** Ends every wait and watch. */
    void close() {
        closed = true;
        open.forEach(this::drop);
    }
}
