package so.lock;

import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;

/** The threads of the locks, all daemons. They do not keep the {@link Locks} from being collected. */
final class Workers {
    private static final int RENEWERS = 8;

    final Clock clock = new Clock();
    private final ExecutorService helpers = Executors.newCachedThreadPool(daemons("lock-so-helper"));
    private final ThreadPoolExecutor renewers = new ThreadPoolExecutor(
            RENEWERS, RENEWERS, 10, SECONDS, new LinkedBlockingQueue<>(), daemons("lock-so-renewal"));

    Workers() {
        renewers.allowCoreThreadTimeOut(true);
    }

    /** Runs a task that may block. */
    void help(Runnable work) {
        try {
            helpers.execute(work);
        } catch (RejectedExecutionException e) {
            work.run(); // the locks are being closed, so it will not take long
        }
    }

    void renew(Runnable work) {
        try {
            renewers.execute(work);
        } catch (RejectedExecutionException e) {
            Locks.LOG.log(System.Logger.Level.DEBUG, Texts.CLOSED);
        }
    }

    void close() {
        clock.close();
        renewers.shutdown();
        helpers.shutdown();
    }

    private static ThreadFactory daemons(String name) {
        return work -> {
            Thread thread = new Thread(work, name);
            thread.setDaemon(true);
            return thread;
        };
    }
}
