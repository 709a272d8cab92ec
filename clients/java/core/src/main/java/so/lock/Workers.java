package so.lock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;

/** The threads of the locks, all daemons. They do not keep the {@link Locks} from being collected. */
final class Workers {
    private static final int THREADS = 4;

    final Clock clock = new Clock();
    final Queues renewals = new Queues();
    final Queues endings = new Queues(); // releases in the background, and cancellations
    private final ExecutorService helpers;

    Workers() {
        this(Workers::daemon);
    }

    Workers(ThreadFactory threads) {
        helpers = Executors.newCachedThreadPool(threads);
    }

    /** Queues of tasks that may block, one for each node, so that a stalled node delays only its own. */
    final class Queues {
        private final Map<String, Deque<Runnable>> waiting = new HashMap<>();
        private final Map<String, Integer> threads = new HashMap<>();

        void add(String node, Runnable task) {
            synchronized (waiting) {
                waiting.computeIfAbsent(node, name -> new ArrayDeque<>()).add(task);
                if (threads.merge(node, 1, Integer::sum) > THREADS) {
                    threads.merge(node, -1, Integer::sum);
                    return;
                }
            }
            surely(() -> work(node));
        }

        private void work(String node) {
            for (Runnable task = next(node); task != null; task = next(node)) {
                try {
                    task.run();
                } catch (RuntimeException | Error e) {
                    Locks.LOG.log(System.Logger.Level.ERROR, "error in a task in the background", e);
                }
            }
        }

        private Runnable next(String node) {
            synchronized (waiting) {
                Runnable task = waiting.get(node).poll();
                if (task == null) {
                    threads.merge(node, -1, Integer::sum);
                }
                return task;
            }
        }
    }

    /** Runs a task that may block. */
    void help(Runnable task) {
        try {
            helpers.execute(task);
        } catch (RejectedExecutionException e) {
            daemon(task).start(); // the locks are being closed
        }
    }

    /** The same; if no thread can be created now, a little later. */
    void surely(Runnable task) {
        try {
            help(task);
        } catch (Error e) {
            Locks.LOG.log(System.Logger.Level.WARNING, "no thread can be created now", e);
            clock.at(System.nanoTime() + MILLISECONDS.toNanos(Call.LATER_MS), () -> surely(task));
        }
    }

    void close() {
        clock.close();
        helpers.shutdown();
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task, "lock-so-helper");
        thread.setDaemon(true);
        return thread;
    }
}
