package so.lock;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import so.lock.wire.Line;
import so.lock.wire.LinkException;
import so.lock.wire.ServerException;

/**
 * A command, and its repetition over lost connections, passing errors and redirections until it is answered.
 * For one thread, but for {@link #stop}, {@link #hangUp}, {@link #isAsking} and {@link #isDoubtful}.
 */
final class Talk {
    /** What to say next, and how long to listen; made anew for each repetition. */
    record Command(int timeoutMs, List<String> words) {}

    private static final long FIRST_PAUSE_MS = 20;
    private static final long LONGEST_PAUSE_MS = 500;
    private static final int SHORT_MS = 2_000;
    /** How long after its time something may last, if a server is silent; in ns. */
    static final long GRACE = 1_500_000_000;
    private static final long LONGEST_CONNECT = 5_000_000_000L; // ns
    private static final long BRIEF = 200_000_000; // ns
    private static final long AT_ONCE = 500_000_000; // ns
    private static final int REDIRECTIONS = 5; // at once; further ones with pauses

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
     * @param greeting what has to be said first on every other
     */
    Talk(Lines lines, String key, Line first, List<List<String>> greeting) {
        this.lines = lines;
        this.key = key;
        this.line = first;
        this.greeting = greeting;
    }

    /** Asks a command that is answered at once, on any connection, for so long as nanoTime is before {@code until}. */
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

    /** Whether something was sent whose answer was lost: it may have been carried out, or may yet be. */
    boolean isDoubtful() {
        return doubtful;
    }

    /** Whether a command is on its way just now. After {@link #stop} it stays false once it is. */
    boolean isAsking() {
        return underWay;
    }

    /** Lets no further command follow. */
    void stop() {
        stopped = true;
    }

    /** Ends what is under way, too. */
    void hangUp() {
        stop();
        lines.drop(line);
    }

    /** The connection of the last answer, for the caller to keep. */
    Line take() {
        Line taken = line;
        line = null;
        return taken;
    }

    /** Gives the connection of the last answer back. */
    void hand() {
        Line taken = take();
        if (taken != null) {
            lines.keep(node, taken);
        }
    }

    /**
     * Asks until there is an answer, or an error that does not pass; when {@code until} is over once more at most.
     *
     * @param onInterrupt as in {@link Line#ask}; null: interrupts only shorten pauses
     * @throws InterruptedException if interrupted between two repetitions
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
                    continue; // it died long ago, and says nothing about the server
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
                pause = FIRST_PAUSE_MS; // it was well for a while
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

    /** Sees to a connection; true if it is one that was idle. */
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

    /** How long a connection may take: not much longer than there is time. */
    private static long patience(long until) {
        return Math.max(BRIEF, Math.min(LONGEST_CONNECT, until + GRACE - System.nanoTime()));
    }

    /** What a connection has to hear first. Where a slot moves, the node that it moves to serves only who says so. */
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

    /** What throws InterruptedException only if the thread is interrupted, which it is again afterwards. */
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
