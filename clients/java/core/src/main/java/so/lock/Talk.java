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
    static final long GRACE = 1_500_000_000;
    private static final long LONGEST_CONNECT = 5_000_000_000L; // ns
    private static final long BRIEF = 200_000_000; // ns
    private static final long AT_ONCE = 500_000_000; // ns
    private static final int REDIRECTIONS = 5; // without a pause; further ones with pauses

    private final Lines lines;
    private final String key;
    private final List<List<String>> greeting;
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
     * @param first the connection to begin on, or null
     * @param greeting the commands to send first on every other connection
     */
    Talk(Lines lines, String key, Line first, List<List<String>> greeting) {
        this.lines = lines;
        this.key = key;
        this.line = first;
        this.greeting = greeting;
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
        for (long pause = FIRST_PAUSE_MS;; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
            boolean kept = connect(until);
            long asked = System.nanoTime();
            try {
                return once(next.get(), onInterrupt);
            } catch (LinkException e) {
                doubtful = true;
                lost();
                if (kept && !stopped && System.nanoTime() - asked < AT_ONCE) {
                    continue; // an idle connection that was lost earlier shows nothing about the server
                }
                giveUpAfter(until, e);
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
                throw new LinkException(new IllegalStateException("given up"));
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
                line = lines.takeIdle(node);
                if (line == null) {
                    line = lines.open(node, patience(until));
                    greet();
                    return false;
                }
                greet();
                return true;
            } catch (LinkException e) {
                lost();
                lines.wire.refresh();
                giveUpAfter(until, e);
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
    private static long patience(long until) {
        return Math.max(BRIEF, Math.min(LONGEST_CONNECT, until + GRACE - System.nanoTime()));
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
