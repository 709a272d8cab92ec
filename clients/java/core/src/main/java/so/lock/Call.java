package so.lock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.NANOSECONDS;

import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;
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
     * @param limited whether the end of that time is that of the caller, and does not show that the server is silent
     */
    record Command(List<String> arguments, long timeoutMs, boolean limited) {
        /** A short command. */
        Command(List<String> arguments) {
            this(arguments, SHORT_MS, false);
        }

        private boolean isLate(long sent) {
            return limited && System.nanoTime() - sent >= MILLISECONDS.toNanos(timeoutMs);
        }
    }

    /** How much longer than its limit an operation may take if a server does not respond; in ns. */
    static final long GRACE = 80_000_000;
    /** A server that does not reply for so long is silent. */
    static final long SHORT_MS = 2_000;
    static final long FIRST_PAUSE_MS = 20;
    static final long LONGEST_PAUSE_MS = 500;
    /** When a request has arrived whose connection was lost, or never will. */
    static final long LATER_MS = 100;
    /** In ns, for times that are added to nanoTime. */
    static final long NO_LIMIT = 1L << 61;

    private static final long LASTING = 1_000_000_000; // ns
    private static final long AT_ONCE = 500_000_000; // ns
    private static final long UNCHECKED = 250_000_000; // ns
    private static final long SHORTEST_CONNECT = 5_000_000; // ns
    private static final int REDIRECTIONS = 5; // without a pause; further ones with pauses

    private final Connections connections;
    private final String key;
    private final boolean isShort;
    private final LockName waitsFor;
    private final List<List<String>> greeting;
    private final long connectUntil;
    private volatile boolean doubtful;
    private volatile boolean pending;
    private volatile boolean sent;
    private long lastSent;
    private volatile boolean stopped;
    private volatile Connection connection;
    private boolean checks;
    private boolean once;
    private boolean single;
    private Consumer<Servers.Identity> identified; // null: not needed
    private LongConsumer greeted = sent -> {};
    private Charset charset = StandardCharsets.UTF_8;
    private String node;
    private String target;
    private boolean asking;

    /** For a short command. */
    Call(Connections connections, String key) {
        this(connections, key, true, null, null, List.of());
    }

    /**
     * @param isShort whether it uses the connection that is reserved for short commands: it must not block
     * @param waitsFor the lock, if this waits for one; otherwise null
     * @param first the connection to begin on, or null
     * @param greeting the commands to send first on every other connection
     */
    Call(Connections connections, String key, boolean isShort, LockName waitsFor, Connection first,
            List<List<String>> greeting) {
        this.connections = connections;
        this.key = key;
        this.isShort = isShort;
        this.waitsFor = waitsFor;
        this.connection = first;
        this.greeting = greeting;
        this.connectUntil = System.nanoTime() + connections.connectTimeout;
    }

    /** Sends PING first on a connection that was idle: a command that is not sent on a dead one is not in doubt. */
    Call checking() {
        checks = true;
        return this;
    }

    /** The same for a command that must not be executed twice: it is not repeated after its connection was lost. */
    Call once() {
        once = true;
        return checking();
    }

    /** It ends with the first failure, also of a connection that is opened; only an idle connection that is dead is replaced. */
    Call single() {
        single = true;
        return this;
    }

    /** Words and replies are Strings of bytes, as {@link Texts#binary} makes them. */
    Call binary() {
        charset = StandardCharsets.ISO_8859_1;
        return this;
    }

    /** Passes on when the greeting of a connection was sent, after the replies to it. */
    Call greeted(LongConsumer listener) {
        greeted = listener;
        return this;
    }

    /** Identifies the server on each new connection, and passes on who it is, before the command is sent. */
    Call identifying(Consumer<Servers.Identity> listener) {
        identified = listener;
        return this;
    }

    /** The address of the server, for texts. */
    String address() {
        return connections.address(node == null ? connections.knownNode(key) : node);
    }

    /** When a wait ends, by nanoTime; negative: it has no limit. */
    static long until(long waitMs) {
        return System.nanoTime() + (waitMs < 0 ? NO_LIMIT : Math.min(MILLISECONDS.toNanos(waitMs), NO_LIMIT));
    }

    /**
     * The next blocking call of a wait.
     *
     * @param words the command that blocks for that many ms; negative: it does not block
     * @param until when the wait ends, by nanoTime
     * @param longestMs how long one call blocks at most
     * @param extraMs how much longer the reply to a call may take
     */
    static Command blocking(LongFunction<List<String>> words, long until, long longestMs, long extraMs) {
        long now = System.nanoTime();
        long left = NANOSECONDS.toMillis(until - now + 999_999);
        long last = NANOSECONDS.toMillis(until + GRACE - now) + extraMs;
        if (left <= 0) {
            return new Command(words.apply(-1), last, true);
        }
        long blockMs = Math.min(left, longestMs);
        long silent = blockMs + SHORT_MS + extraMs;
        return new Command(words.apply(blockMs), Math.min(silent, last), last < silent);
    }

    /** Sends a short command, and repeats it while nanoTime is before {@code until}. */
    static Object send(Connections connections, String key, List<String> arguments, long until)
            throws LinkException, ServerException {
        return new Call(connections, key).send(() -> new Command(arguments), until);
    }

    /** The same, also if the thread is interrupted; the connection is kept for other commands. */
    Object send(Supplier<Command> next, long until) throws LinkException, ServerException {
        try {
            return uninterrupted(() -> send(next, until, null));
        } finally {
            giveBack();
        }
    }

    /** Whether the reply to a command was lost: the command may have been executed, or may still be. */
    boolean isDoubtful() {
        return doubtful;
    }

    /** Whether a command was ever sent. */
    boolean isSent() {
        return sent;
    }

    /** When the last command was sent, by nanoTime: perhaps long after {@link #send} was called, on a new connection. */
    long lastSent() {
        return lastSent;
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
    synchronized void disconnect() {
        stopped = true;
        connections.drop(connection);
    }

    /** The connection of the last reply, which belongs to the caller from now on. */
    synchronized Connection takeConnection() {
        Connection taken = connection;
        connection = null;
        return taken;
    }

    /** Keeps the connection, if there is one, for other commands. */
    void giveBack() {
        Connection unused = takeConnection();
        if (unused != null) {
            unused.used = System.nanoTime();
            connections.keep(unused);
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
            boolean idle = connect(until);
            Command command = next.get();
            long began = System.nanoTime();
            pending = true;
            if (stopped) {
                pending = false;
                throw connections.failure("given up");
            }
            sent = true;
            lastSent = began;
            try {
                return exchange(command, onInterrupt);
            } catch (LinkException e) {
                doubtful = true;
                if (once) {
                    throw e;
                }
                boolean late = command.isLate(began);
                if (!late && isDead(idle, began, until)) {
                    continue;
                }
                giveUpAfter(until, e);
                if (late) {
                    continue; // the next blocking call begins
                }
                if (++failures > 1) { // one lost connection is no outage yet
                    warn(e);
                }
            } catch (ServerException e) {
                if (!e.isTransient()) {
                    throw e;
                }
                if (redirect(e) && redirections++ < REDIRECTIONS) {
                    continue;
                }
                giveUpAfter(until, e);
            } finally {
                pending = false;
            }
            if (System.nanoTime() - began > AT_ONCE) {
                pause = FIRST_PAUSE_MS; // the connection worked for a while
            }
            pause(pause, until);
        }
    }

    /** Sends a command once. A connection that shows that the node has failed is closed, with all idle ones. */
    private Object exchange(Command command, Runnable onInterrupt) throws LinkException, ServerException {
        Connection used = connection;
        long sent = System.nanoTime();
        try {
            int timeoutMs = (int) Math.max(1, Math.min(command.timeoutMs, Integer.MAX_VALUE));
            Object reply = used.line.send(timeoutMs, command.arguments, charset, onInterrupt);
            connections.outageEnded(used.node);
            return reply;
        } catch (LinkException e) {
            if (System.nanoTime() - sent > LASTING) {
                connections.outageEnded(used.node);
            }
            lose(!stopped && !command.isLate(sent));
            throw e;
        } catch (ServerException e) {
            if (e.nodeHasFailed()) {
                lose(true);
            } else if (e.isTransient()) {
                giveBack();
            }
            throw e;
        }
    }

    private void lose(boolean failed) {
        Connection lost = takeConnection();
        connections.drop(lost);
        if (failed) {
            connections.forget(lost.node);
        }
    }

    /** An idle connection that was lost earlier shows nothing about the server. */
    private boolean isDead(boolean idle, long sent, long until) {
        long now = System.nanoTime();
        return idle && !stopped && now - sent < AT_ONCE && now - until < GRACE;
    }

    /** Gets a connection; true if it is one that was idle. */
    private boolean connect(long until) throws LinkException, ServerException, InterruptedException {
        boolean idle = false;
        for (long pause = FIRST_PAUSE_MS; connection == null; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
            long start = System.nanoTime();
            idle = false;
            try {
                node = target != null ? target : connections.node(key, limit(until));
                connection = connections.take(node, isShort, limit(until));
                idle = connection.used - start < 0;
                greet(idle && checks && start - connection.used > UNCHECKED, until);
                return idle;
            } catch (LinkException e) {
                target = null;
                if (isDead(idle, start, until)) {
                    continue;
                }
                giveUpAfter(until, e);
                if (waitsFor != null && !connections.connected && System.nanoTime() - connectUntil >= 0) {
                    throw e;
                }
                warn(e);
            } catch (ServerException e) {
                if (!e.isTransient()) {
                    throw e;
                }
                redirect(e);
                giveUpAfter(until, e);
            }
            pause(pause, until);
        }
        return idle;
    }

    /** How long to wait for a connection: not much longer than {@code until}. */
    private long limit(long until) {
        long now = System.nanoTime();
        long left = Math.min(connections.connectTimeout, until + GRACE - now);
        if (waitsFor != null && !connections.connected) {
            left = Math.min(left, connectUntil - now);
        }
        return now + Math.max(SHORTEST_CONNECT, left);
    }

    private void warn(LinkException e) {
        if (waitsFor != null) {
            connections.warnOfOutage(waitsFor, node == null ? connections.knownNode(key) : node, e);
        }
    }

    /** Sends what a connection needs first. A node to which a slot is moving serves its keys only after ASKING. */
    private void greet(boolean check, long until) throws LinkException, ServerException {
        if (check) {
            exchange(within(List.of("PING"), until + GRACE), null);
        }
        if (asking) {
            asking = false;
            exchange(within(List.of("ASKING"), until + GRACE), null);
        }
        long sent = System.nanoTime();
        for (List<String> arguments : greeting) {
            exchange(within(arguments, until + GRACE), null);
        }
        greeted.accept(sent);
        if (identified != null) {
            Connection used = connection;
            if (used.identity == null) {
                used.identity = Servers.Identity.of(words -> exchange(within(List.of(words), until + GRACE), null));
            }
            identified.accept(used.identity);
        }
    }

    /** A short command whose reply must arrive before {@code end}. */
    static Command within(List<String> arguments, long end) {
        long left = Math.max(1, NANOSECONDS.toMillis(end - System.nanoTime()));
        return new Command(arguments, Math.min(SHORT_MS, left), left < SHORT_MS);
    }

    private boolean redirect(ServerException e) {
        target = e.target();
        asking = target != null && e.code().equals("ASK");
        if (e.code().equals("MOVED")) {
            connections.refresh(true);
        }
        return target != null;
    }

    private <E extends Exception> void giveUpAfter(long until, E e) throws E {
        if (stopped || single || connections.closed || System.nanoTime() - until >= 0) {
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
