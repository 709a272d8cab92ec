package so.lock;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
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

    final Wire wire;
    private final Map<String, Deque<Line>> idle = new HashMap<>();
    private final Set<Line> open = ConcurrentHashMap.newKeySet();
    private final Executor helpers;
    private volatile boolean closed;

    /** @param helpers where connections are opened, because a library may not allow an interrupt of that */
    Lines(Wire wire, Executor helpers) {
        this.wire = wire;
        this.helpers = helpers;
    }

    /** An idle connection, which the server may have closed; or null. */
    Line takeIdle(String node) {
        synchronized (idle) {
            Deque<Line> lines = idle.get(node);
            return lines == null ? null : lines.pollLast();
        }
    }

    /** @param ns how long it may take */
    Line open(String node, long ns) throws LinkException, ServerException, InterruptedException {
        CompletableFuture<Line> opening = new CompletableFuture<>();
        helpers.execute(() -> open(node, opening));
        Line line;
        try {
            line = opening.get(ns, TimeUnit.NANOSECONDS);
        } catch (TimeoutException | InterruptedException e) {
            if (!opening.completeExceptionally(e) && !opening.isCompletedExceptionally()) {
                opening.join().close();
            }
            if (e instanceof InterruptedException interrupted) {
                throw interrupted;
            }
            throw new LinkException(new IllegalStateException("no connection to " + node + " in time"));
        } catch (ExecutionException e) {
            throw failure(e.getCause());
        }
        open.add(line);
        if (closed) {
            drop(line);
            throw new LinkException(new IllegalStateException("the locks are closed"));
        }
        return line;
    }

    private void open(String node, CompletableFuture<Line> opening) {
        try {
            Line line = wire.open(node);
            if (!opening.complete(line)) {
                line.close(); // it is not needed any more
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
