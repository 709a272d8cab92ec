package so.lock;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import so.lock.wire.Line;
import so.lock.wire.LinkException;
import so.lock.wire.ServerException;

/**
 * Sends a command, and repeats it after lost connections, transient errors and redirections until it has a reply.
 * For one thread, except {@link #stop}, {@link #hangUp}, {@link #isAsking} and {@link #isDoubtful}.
 */
final class Talk {
    /** The command to send, and the time limit for its reply; a new one for each repetition. */
    record Command(int timeoutMs, List<String> words) {}

    private static final long FIRST_PAUSE_MS = 20;
    private static final long LONGEST_PAUSE_MS = 500;
    private static final int SHORT_MS = 2_000;
    /** How much longer than its limit an operation may take if a server does not respond; in ns. */
    static final long GRACE = 80_000_000;
    private static final long LONGEST_CONNECT = 5_000_000_000L; // ns
    private static final long LASTING = 1_000_000_000; // ns
    private static final long AT_ONCE = 500_000_000; // ns
    private static final long SHORTEST_CONNECT = 5_000_000; // ns
    private static final int REDIRECTIONS = 5; // without a pause; further ones with pauses

    private final Lines lines;
    private final String key;
    private final List<List<String>> greeting;
    private final String waitsFor;
    private final long connectNs;
    private final long connectUntil;
    private volatile boolean doubtful;
    private String target;
    private boolean asking;
    private String node;
    private volatile Line line;
    private volatile boolean underWay;
    private volatile boolean stopped;

    Talk(Lines lines, String key) {
        this(lines, key, null, List.of());
    }

    /**
     * To wait for a lock.
     *
     * @param waitsFor the lock in texts
     * @param connectNs after this time it is an error if there was never a connection
     */
    Talk(Lines lines, String key, String waitsFor, long connectNs) {
        this(lines, key, null, List.of(), waitsFor, connectNs);
    }

    /**
     * @param first the connection to begin on, or null
     * @param greeting the commands to send first on every other connection
     */
    Talk(Lines lines, String key, Line first, List<List<String>> greeting) {
        this(lines, key, first, greeting, null, LONGEST_CONNECT);
    }

    private Talk(
            Lines lines, String key, Line first, List<List<String>> greeting, String waitsFor, long connectNs) {
        this.lines = lines;
        this.key = key;
        this.line = first;
        this.greeting = greeting;
        this.waitsFor = waitsFor;
        this.connectNs = connectNs;
        this.connectUntil = System.nanoTime() + connectNs;
    }

    /** The address of the server, for texts. */
    String where() {
        return node == null ? lines.wire.where("") : lines.wire.where(node);
    }

    /**
     * Sends a command that does not block, on any connection, and repeats it while nanoTime is before {@code until}.
     */
    static Object ask(Lines lines, String key, List<String> words, long until)
            throws LinkException, ServerException {
        return new Talk(lines, key).shortly(words, until);
    }

    Object shortly(List<String> words, long until) throws LinkException, ServerException {
        return uninterrupted(() -> {
            Object reply = ask(() -> new Command(SHORT_MS, words), until, null);
            hand();
            return reply;
        });
    }

    /** Sends a command that only reads, once; its reply must come before {@code end}. */
    Object once(List<String> words, long end) throws LinkException, ServerException {
        return uninterrupted(() -> {
            long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
            Object reply = ask(() -> new Command((int) Math.max(1, left), words), System.nanoTime(), null);
            hand();
            return reply;
        });
    }

    /** Whether the reply to a command was lost: the command may have been executed, or may still be. */
    boolean isDoubtful() {
        return doubtful;
    }

    /** Whether a command has been sent and has no reply yet. After {@link #stop} it stays false once it is false. */
    boolean isAsking() {
        return underWay;
    }

    /** Prevents further commands. */
    void stop() {
        stopped = true;
    }

    /** Prevents further commands, and closes the connection of the pending one. */
    void hangUp() {
        stop();
        lines.drop(line);
    }

    /** The connection of the last reply, which belongs to the caller from now on. */
    Line take() {
        Line taken = line;
        line = null;
        return taken;
    }

    /** Gives the connection of the last reply back. */
    void hand() {
        Line taken = take();
        if (taken != null) {
            lines.keep(node, taken);
        }
    }

    /**
     * Sends commands until there is a reply, or an error that is not transient; after {@code until} at most once more.
     *
     * @param onInterrupt as in {@link Line#ask}; null: interrupts only end pauses
     * @throws InterruptedException if interrupted between two commands
     */
    Object ask(Supplier<Command> next, long until, Runnable onInterrupt)
            throws LinkException, ServerException, InterruptedException {
        int redirections = 0;
        int failures = 0;
        for (long pause = FIRST_PAUSE_MS;; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
            boolean kept = connect(until);
            long asked = System.nanoTime();
            try {
                Object reply = once(next.get(), onInterrupt);
                lines.outageEnded(node);
                return reply;
            } catch (LinkException e) {
                doubtful = true;
                String lostNode = node;
                lost();
                if (System.nanoTime() - asked > LASTING) {
                    lines.outageEnded(lostNode);
                }
                if (kept && !stopped && System.nanoTime() - asked < AT_ONCE) {
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
            if (System.nanoTime() - asked > AT_ONCE) {
                pause = FIRST_PAUSE_MS; // the connection worked for a while
            }
            pause(pause, until);
        }
    }

    private Object once(Command command, Runnable onInterrupt) throws LinkException, ServerException {
        underWay = true;
        try {
            if (stopped) {
                throw new LinkException(lines.wire.failure("given up"));
            }
            return line.ask(command.timeoutMs, command.words, onInterrupt);
        } finally {
            underWay = false;
        }
    }

    /** Gets a connection; true if it is one that was idle. */
    private boolean connect(long until) throws LinkException, ServerException, InterruptedException {
        for (long pause = FIRST_PAUSE_MS; line == null; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
            try {
                node = target != null ? target : lines.wire.node(key);
                if (waitsFor != null) {
                    lines.reserve(node, patience(until));
                }
                line = waitsFor != null ? lines.takeIdle(node) : lines.takeBrief(node);
                if (line == null) {
                    long ns = patience(until);
                    line = waitsFor != null ? lines.open(node, ns) : lines.openBrief(node, ns);
                    greet();
                    return false;
                }
                greet();
                return true;
            } catch (LinkException e) {
                lost();
                lines.wire.refresh();
                giveUpAfter(until, e);
                if (waitsFor != null && !lines.isConnected() && System.nanoTime() - connectUntil >= 0) {
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
        return false;
    }

    /** The time limit for a connection: not much more than is left until {@code until}. */
    private long patience(long until) {
        long now = System.nanoTime();
        long left = Math.min(connectNs, until + GRACE - now);
        return Math.max(SHORTEST_CONNECT, lines.isConnected() || waitsFor == null ? left : Math.min(left, connectUntil - now));
    }

    private void warn(LinkException e) {
        if (waitsFor != null && node != null) {
            lines.warnOfOutage(waitsFor, node, e);
        }
    }

    /** Sends what a connection needs first. A node to which a slot is moving serves its keys only after ASKING. */
    private void greet() throws LinkException, ServerException {
        if (asking) {
            asking = false;
            line.ask(SHORT_MS, List.of("ASKING"), null);
        }
        for (List<String> words : greeting) {
            line.ask(SHORT_MS, words, null);
        }
    }

    private void lost() {
        lines.drop(line);
        line = null;
        target = null;
        if (node != null) {
            lines.forget(node);
        }
    }

    private boolean redirect(ServerException e) {
        target = e.target();
        asking = target != null && e.code().equals("ASK");
        if (e.code().equals("MOVED")) {
            lines.wire.refresh();
        }
        return target != null;
    }

    private <E extends Exception> void giveUpAfter(long until, E e) throws E {
        if (stopped || lines.isClosed() || System.nanoTime() - until >= 0) {
            throw e;
        }
    }

    private static void pause(long ms, long until) throws InterruptedException {
        TimeUnit.NANOSECONDS.sleep(Math.min(TimeUnit.MILLISECONDS.toNanos(ms), until - System.nanoTime()));
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
