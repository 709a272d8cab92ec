package so.lock;

import static java.util.concurrent.TimeUnit.SECONDS;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import so.lock.wire.Wire;

/**
 * The locks of one server, cluster or master. Create one object for a program, with {@code JedisLocks} or
 * {@code LettuceLocks}. Any thread may use it. Its own threads are daemons: one checks the leases of all holds, up to
 * {@value #RENEWERS} send renewals, and others exist while a hold has a listener or a request is given up.
 */
public final class Locks implements AutoCloseable {
    static final System.Logger LOG = System.getLogger("so.lock");
    private static final int RENEWERS = 8;
    private static final int CLOSING_S = 2;

    final Lines lines;
    private final ExecutorService helpers = Executors.newCachedThreadPool(daemons("lock-so-helper"));
    final Clock clock = new Clock();
    final Set<Acquisition> running = ConcurrentHashMap.newKeySet();
    private volatile long maxBlockMs = 30_000;
    private volatile boolean closed;
    private final Map<ThreadHold.Place, ThreadHold> threads = new ConcurrentHashMap<>();
    private final ThreadPoolExecutor renewers = new ThreadPoolExecutor(
            RENEWERS, RENEWERS, 10, SECONDS, new LinkedBlockingQueue<>(), daemons("lock-so-renewal"));

    /** @param wire opens connections; it is closed with the locks */
    public Locks(Wire wire) {
        lines = new Lines(wire, this::help);
        renewers.allowCoreThreadTimeOut(true);
    }

    /**
     * Sets how long one command blocks at most, 30 seconds if this is not called. Then the request is sent again. A
     * server that stopped responding is noticed 2 seconds later. Commands that block already are not changed.
     *
     * @return this
     */
    public Locks withMaxBlock(Duration time) {
        if (time.toMillis() < 1) {
            throw new IllegalArgumentException("the limit must be at least a millisecond");
        }
        maxBlockMs = time.toMillis();
        return this;
    }

    long maxBlockMs() {
        return maxBlockMs;
    }

    /** A lock: {@code LOCK.ACQUIRE}. */
    public DistributedLock lock(String key, LockOptions options) {
        return lock(Request.of(Request.Kind.LOCK, key, options));
    }

    /** {@link #lock(String, LockOptions)} with {@link LockOptions#DEFAULT}. */
    public DistributedLock lock(String key) {
        return lock(key, LockOptions.DEFAULT);
    }

    /** The same lock, first come, first served: {@code LOCK.FAIR}. */
    public DistributedLock fairLock(String key, LockOptions options) {
        return lock(Request.of(Request.Kind.FAIR, key, options));
    }

    /** A read-write lock: {@code LOCK.RWREAD} and {@code LOCK.RWWRITE}. Only write locks have fencing tokens. */
    public DistributedReadWriteLock readWriteLock(String key, LockOptions options) {
        return new DistributedReadWriteLock(this, key, options);
    }

    /**
     * A multi-key lock, all keys or none in one step: {@code LOCK.MACQUIRE}. In a cluster the keys must share a slot.
     */
    public DistributedLock multiLock(List<String> keys, LockOptions options) {
        return lock(new Request(Request.Kind.MULTI, List.copyOf(keys), 1, 1, options));
    }

    /** Permits, of which all owners together hold at most {@code limit}: {@code LOCK.SEMAPHORE}. */
    public DistributedSemaphore semaphore(String key, int limit, LockOptions options) {
        return new DistributedSemaphore(this, key, limit, options);
    }

    private DistributedLock lock(Request request) {
        return new DistributedLock(this, request, String.join("\0", request.keys()));
    }

    /**
     * Ends waits, watches and renewals, and closes every connection. A lock that is held stays held until its lease
     * expires or, with a session, until lock.session-grace has elapsed: release locks first.
     */
    @Override
    public void close() {
        closed = true;
        CompletableFuture.allOf(running.stream().map(Acquisition::abandon).toArray(CompletableFuture[]::new))
                .completeOnTimeout(null, CLOSING_S, SECONDS)
                .join();
        clock.close();
        renewers.shutdown();
        lines.close();
        helpers.shutdown();
        lines.wire.close();
    }

    /**
     * Acquires a new hold, with an owner of its own.
     *
     * @param waitMs 0: do not wait, negative: no limit
     * @param thread renewals end when this thread ends; null: none
     * @return null if it could not be acquired in time
     */
    Hold acquire(Request request, long waitMs, boolean interruptible, Thread thread) throws InterruptedException {
        String owner = UUID.randomUUID().toString();
        boolean session = request.options().session();
        Acquisition acquisition = new Acquisition(this, request, owner, session, waitMs);
        Object reply = acquisition.run(interruptible);
        if (reply == null) {
            return null;
        }
        Hold hold = new Hold(this, request, owner, reply, session ? acquisition.line() : null);
        hold.keeper().start(acquisition.sent(), thread);
        return hold;
    }

    /** Acquires the other mode of a read-write lock for the same owner, with the hold's lease. False: not in time. */
    boolean extend(Hold hold, Request mode, long waitMs, boolean interruptible) throws InterruptedException {
        Acquisition acquisition = new Acquisition(this, mode, hold.owner(), false, waitMs);
        Object reply = acquisition.run(interruptible);
        if (reply != null) {
            hold.granted(mode, reply);
        }
        return reply != null;
    }

    Map<ThreadHold.Place, ThreadHold> threads() {
        return threads;
    }

    /** Removes the holds of a thread that has ended, because it cannot unlock them any more. */
    void forget(Thread thread) {
        threads.keySet().removeIf(place -> place.thread() == thread);
    }

    boolean isClosed() {
        return closed;
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
            LOG.log(System.Logger.Level.DEBUG, "closed");
        }
    }

    private static ThreadFactory daemons(String name) {
        return work -> {
            Thread thread = new Thread(work, name);
            thread.setDaemon(true);
            return thread;
        };
    }
}
