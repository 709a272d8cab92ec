package so.lock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.NANOSECONDS;

import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import so.lock.Connections.Connection;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/**
 * Sends a command, and repeats it after lost connections, transient errors and redirections until it has a reply.
 * For one thread, except {@link #stop}, {@link #disconnect}, {@link #isPending} and {@link #isDoubtful}.
 */
final class Call {
    /**
     * A command; a new one for each repetition.
     *
     * @param timeoutMs the time limit for its reply
     * @param cut whether the end of that time ends a blocking call, instead of showing that the server is silent
     */
    record Command(long timeoutMs, List<String> words, boolean cut) {
        Command(long timeoutMs, List<String> words) {
            this(timeoutMs, words, false);
        }
    }

    /** How much longer than its limit an operation may take if a server does not respond; in ns. */
    static final long GRACE = 80_000_000;

    private static final long FIRST_PAUSE_MS = 20;
    private static final long LONGEST_PAUSE_MS = 500;
    static final long SHORT_MS = 2_000;
    private static final long LATER_MS = 100;
    private static final long LASTING = 1_000_000_000; // ns
    private static final long AT_ONCE = 500_000_000; // ns
    private static final long UNCHECKED = 250_000_000; // ns
    private static final long SHORTEST_CONNECT = 5_000_000; // ns
    private static final int REDIRECTIONS = 5; // without a pause; further ones with pauses

    private final Connections connections;
    private final String key;
    private final boolean brief;
    private final String waitsFor;
    private final List<List<String>> greeting;
    private final long connectUntil;
    private volatile boolean doubtful;
    private volatile boolean pending;
    private volatile boolean stopped;
    private volatile Connection connection;
    private String node;
    private String target;
    private boolean asking;

    /** For a short command. */
    Call(Connections connections, String key) {
        this(connections, key, true, null, null, List.of());
    }

    /**
     * @param brief whether it uses the connection that is reserved for short commands: it must not block
     * @param waitsFor the lock in texts, if this waits for one; otherwise null
     * @param first the connection to begin on, or null
     * @param greeting the commands to send first on every other connection
     */
    Call(Connections connections, String key, boolean brief, String waitsFor, Connection first,
            List<List<String>> greeting) {
        this.connections = connections;
        this.key = key;
        this.brief = brief;
        this.waitsFor = waitsFor;
        this.connection = first;
        this.greeting = greeting;
        this.connectUntil = System.nanoTime() + connections.connectTimeout();
    }

    /** The address of the server, for texts. */
    String where() {
        return connections.where(node == null ? connections.knownNode(key) : node);
    }

    /** Sends a short command, and repeats it while nanoTime is before {@code until}. */
    static Object send(Connections connections, String key, List<String> words, long until)
            throws LinkException, ServerException {
        return new Call(connections, key).shortly(words, until);
    }

    /** The same for a renewal, whose reply may wait for replicas for this time. */
    static void renew(Connections connections, String key, List<String> words, long until, long replicasMs)
            throws LinkException, ServerException {
        new Call(connections, key).shortly(() -> new Command(SHORT_MS + replicasMs, words), until);
    }

    /** Sends a short command that only reads; its reply must arrive before {@code end}. */
    static Object read(Connections connections, String key, List<String> words, long end)
            throws LinkException, ServerException {
        return new Call(connections, key).shortly(() -> new Command(left(end), words), end - GRACE);
    }

    /** A command that shows whether an earlier one was executed, which may still arrive. */
    static Command later(List<String> words) {
        LockSupport.parkNanos(MILLISECONDS.toNanos(LATER_MS));
        return new Command(SHORT_MS, words);
    }

    Object shortly(List<String> words, long until) throws LinkException, ServerException {
        return shortly(() -> new Command(SHORT_MS, words), until);
    }

    Object shortly(Supplier<Command> next, long until) throws LinkException, ServerException {
        try {
            return uninterrupted(() -> send(next, until, null));
        } finally {
            hand();
        }
    }

    /** Whether the reply to a command was lost: the command may have been executed, or may still be. */
    boolean isDoubtful() {
        return doubtful;
    }

    /** Whether a command has been sent and has no reply yet. After {@link #stop} it stays false once it is false. */
    boolean isPending() {
        return pending;
    }

    /** Prevents further commands. */
    void stop() {
        stopped = true;
    }

    /** Prevents further commands, and closes the connection of the pending one. */
    void disconnect() {
        stop();
        connections.drop(connection);
    }

    /** The connection of the last reply, which belongs to the caller from now on. */
    Connection take() {
        Connection taken = connection;
        connection = null;
        return taken;
    }

    /** Keeps the connection, if there is one, for other commands. */
    void hand() {
        Connection handed = take();
        if (handed != null) {
            handed.used = System.nanoTime();
            connections.keep(handed);
        }
    }

    /**
     * Sends a command and repeats it while nanoTime is before {@code until}.
     *
     * @param onInterrupt as in {@link so.lock.internal.Line#send}; null: interrupts only end pauses
     * @throws InterruptedException if interrupted between two commands
     */
    Object send(Supplier<Command> next, long until, Runnable onInterrupt)
            throws LinkException, ServerException, InterruptedException {
        int redirections = 0;
        int failures = 0;
        for (long pause = FIRST_PAUSE_MS;; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
            boolean kept = connect(until);
            Command command = next.get();
            long sent = System.nanoTime();
            try {
                Object reply = once(command, onInterrupt);
                connections.outageEnded(connection.node);
                return reply;
            } catch (LinkException e) {
                doubtful = true;
                long lasted = System.nanoTime() - sent;
                if (command.cut && lasted >= MILLISECONDS.toNanos(command.timeoutMs)) {
                    connections.drop(take());
                    giveUpAfter(until, e);
                    continue; // the next blocking call begins
                }
                if (lasted > LASTING) {
                    connections.outageEnded(connection.node);
                }
                lost();
                if (kept && !stopped && lasted < AT_ONCE) {
                    continue; // an idle connection that was lost earlier shows nothing about the server
                }
                giveUpAfter(until, e);
                if (++failures > 1) { // one lost connection is no outage yet
                    warn(e);
                }
            } catch (ServerException e) {
                if (!e.isPassing()) {
                    throw e;
                }
                lost();
                if (redirect(e) && redirections++ < REDIRECTIONS) {
                    continue;
                }
                giveUpAfter(until, e);
            }
            if (System.nanoTime() - sent > AT_ONCE) {
                pause = FIRST_PAUSE_MS; // the connection worked for a while
            }
            pause(pause, until);
        }
    }

    private Object once(Command command, Runnable onInterrupt) throws LinkException, ServerException {
        pending = true;
        try {
            if (stopped) {
                throw connections.failure("given up");
            }
            int timeoutMs = (int) Math.max(1, Math.min(command.timeoutMs, Integer.MAX_VALUE));
            return connection.line.send(timeoutMs, command.words, onInterrupt);
        } finally {
            pending = false;
        }
    }

    /** Gets a connection; true if it is one that was idle. */
    private boolean connect(long until) throws LinkException, ServerException, InterruptedException {
        boolean kept = false;
        for (long pause = FIRST_PAUSE_MS; connection == null; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
            long start = System.nanoTime();
            kept = false;
            try {
                node = target != null ? target : connections.node(key, limit(until));
                connection = connections.take(node, brief, limit(until));
                kept = connection.used - start < 0;
                greet(kept && brief && start - connection.used > UNCHECKED, until);
                return kept;
            } catch (LinkException e) {
                lost();
                if (kept && !stopped && System.nanoTime() - start < AT_ONCE) {
                    continue;
                }
                giveUpAfter(until, e);
                if (waitsFor != null && !connections.isConnected() && System.nanoTime() - connectUntil >= 0) {
                    throw e;
                }
                warn(e);
            } catch (ServerException e) {
                lost();
                if (!e.isPassing()) {
                    throw e;
                }
                redirect(e);
                giveUpAfter(until, e);
            }
            pause(pause, until);
        }
        return kept;
    }

    /** How long to wait for a connection: not much longer than {@code until}. */
    private long limit(long until) {
        long now = System.nanoTime();
        long left = Math.min(connections.connectTimeout(), until + GRACE - now);
        if (waitsFor != null && !connections.isConnected()) {
            left = Math.min(left, connectUntil - now);
        }
        return now + Math.max(SHORTEST_CONNECT, left);
    }

    private void warn(LinkException e) {
        if (waitsFor != null && node != null) {
            connections.warnOfOutage(waitsFor, node, e);
        }
    }

    /**
     * Sends what a connection needs first. A node to which a slot is moving serves its keys only after ASKING.
     *
     * @param check whether it was idle for so long that the server may have closed it: a command that is not sent on a
     *     dead connection is never in doubt
     */
    private void greet(boolean check, long until) throws LinkException, ServerException {
        if (check) {
            greet(List.of("PING"), until);
        }
        if (asking) {
            asking = false;
            greet(List.of("ASKING"), until);
        }
        for (List<String> words : greeting) {
            greet(words, until);
        }
    }

    private void greet(List<String> words, long until) throws LinkException, ServerException {
        connection.line.send((int) Math.min(SHORT_MS, left(until + GRACE)), words, null);
    }

    /** In ms, at least 1. */
    private static long left(long end) {
        return Math.max(1, NANOSECONDS.toMillis(end - System.nanoTime()));
    }

    private void lost() {
        target = null;
        Connection lost = take();
        if (lost != null) {
            connections.drop(lost);
            connections.forget(lost.node);
        }
    }

    private boolean redirect(ServerException e) {
        target = e.target();
        asking = target != null && e.code().equals("ASK");
        if (e.code().equals("MOVED")) {
            connections.refresh();
        }
        return target != null;
    }

    private <E extends Exception> void giveUpAfter(long until, E e) throws E {
        if (stopped || connections.isClosed() || System.nanoTime() - until >= 0) {
            throw e;
        }
    }

    private static void pause(long ms, long until) throws InterruptedException {
        NANOSECONDS.sleep(Math.min(MILLISECONDS.toNanos(ms), until - System.nanoTime()));
    }

    /**
     * An action that may throw InterruptedException; it is then run again, and the thread is interrupted afterwards.
     */
    interface Interruptible<T> {
        T run() throws LinkException, ServerException, InterruptedException;
    }

    static <T> T uninterrupted(Interruptible<T> action) throws LinkException, ServerException {
        boolean interrupted = Thread.interrupted();
        try {
            while (true) {
                try {
                    return action.run();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
