package so.lock;

import static java.util.concurrent.TimeUnit.NANOSECONDS;
import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.lang.ref.Cleaner;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import so.lock.Connections.Connection;
import so.lock.internal.LinkException;
import so.lock.internal.Wire;

/**
 * The locks of one server, cluster or master. Create one object for a program, with {@code JedisLocks} or
 * {@code LettuceLocks}. Any thread may use it. Its own threads are daemons: one checks the leases of all holds, for each
 * node up to 4 send renewals, 4 those with replicas, 4 end what is given up or forgotten, and 256 open connections; there
 * is one for each hold and key with a listener or a session, and one for each listener that runs. They and all connections end when it is closed, or garbage-collected.
 */
public final class Locks implements AutoCloseable {
    static final System.Logger LOG = System.getLogger("so.lock");
    static final Cleaner CLEANER = Cleaner.create();
    private static final Duration CLOSING = Duration.ofSeconds(2);
    static final String PROCESS = host() + ":" + ProcessHandle.current().pid() + ":";

    final Workers workers = new Workers();
    final Connections connections;
    final Set<Acquisition> running = ConcurrentHashMap.newKeySet();
    final Set<Holding> holdings = ConcurrentHashMap.newKeySet();
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private final Cleaner.Cleanable end;
    volatile long maxBlockMs = 30_000;
    volatile boolean closed;
    final Map<ThreadHold.Place, ThreadHold> threads = new ConcurrentHashMap<>();

    /** For the adapters of this package only. */
    public Locks(Wire wire) {
        connections = new Connections(wire, workers);
        end = CLEANER.register(this, ending(connections, workers, ended));
    }

    /** Closes everything, when the locks are closed or collected; it does not refer to them. */
    private static Runnable ending(Connections connections, Workers workers, CompletableFuture<Void> ended) {
        return () -> {
            workers.help(() -> {
                try {
                    connections.close();
                } finally {
                    ended.complete(null);
                }
            });
            workers.close();
        };
    }

    private static String host() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException e) {
            return "localhost";
        }
    }

    private static String newOwner() {
        String random = UUID.randomUUID().toString(); // 80 of its 122 random bits
        return PROCESS + random.substring(0, 8) + random.substring(24);
    }

    /**
     * Sets how long one command blocks at most, 30 seconds if this is not called. Then the request is sent again. A
     * server that stopped responding is noticed 2 seconds later. Commands that block already are not changed.
     */
    public void setMaxBlock(Duration time) {
        maxBlockMs = LockOptions.checkTime("maxBlock", time);
    }

    /**
     * Sets how long it may take to establish a connection, 5 seconds if this is not called. If none was ever
     * established, a wait ends after this time with the library's exception. After the first one, a wait lasts as long
     * as it was requested. Jedis has a time limit of its own, that of its settings, after which connecting is repeated.
     */
    public void setConnectTimeout(Duration time) {
        long ms = LockOptions.checkTime("connectTimeout", time);
        connections.connectTimeout = Math.min(MILLISECONDS.toNanos(ms), Call.NO_LIMIT);
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

    /** {@link #fairLock(String, LockOptions)} with {@link LockOptions#DEFAULT}. */
    public DistributedLock fairLock(String key) {
        return fairLock(key, LockOptions.DEFAULT);
    }

    /** A read-write lock: {@code LOCK.RWREAD} and {@code LOCK.RWWRITE}. Only write locks have fencing tokens. */
    public DistributedReadWriteLock readWriteLock(String key, LockOptions options) {
        return new DistributedReadWriteLock(this, key, options);
    }

    /** {@link #readWriteLock(String, LockOptions)} with {@link LockOptions#DEFAULT}. */
    public DistributedReadWriteLock readWriteLock(String key) {
        return readWriteLock(key, LockOptions.DEFAULT);
    }

    /**
     * A multi-key lock, all keys or none in one step: {@code LOCK.MACQUIRE}. In a cluster the keys must share a slot. A
     * thread that holds it and locks one of its keys by {@link #lock} waits for itself: that is another lock.
     */
    public DistributedLock multiLock(List<String> keys, LockOptions options) {
        return lock(Request.multi(List.copyOf(keys), List.of(), options));
    }

    /** A multi-key lock of read-write locks: each key is read or written. */
    public DistributedLock multiLock(MultiKeys keys, LockOptions options) {
        return lock(keys.request(options));
    }

    /** {@link #multiLock(MultiKeys, LockOptions)} with {@link LockOptions#DEFAULT}. */
    public DistributedLock multiLock(MultiKeys keys) {
        return multiLock(keys, LockOptions.DEFAULT);
    }

    /** {@link #multiLock(List, LockOptions)} with {@link LockOptions#DEFAULT}. */
    public DistributedLock multiLock(List<String> keys) {
        return multiLock(keys, LockOptions.DEFAULT);
    }

    /** Permits, of which all owners together hold at most {@code limit}: {@code LOCK.SEMAPHORE}. */
    public DistributedSemaphore semaphore(String key, int limit, LockOptions options) {
        return new DistributedSemaphore(this, key, limit, options);
    }

    /** {@link #semaphore(String, int, LockOptions)} with {@link LockOptions#DEFAULT}. */
    public DistributedSemaphore semaphore(String key, int limit) {
        return semaphore(key, limit, LockOptions.DEFAULT);
    }

    /** A latch: {@code LATCH.SET}, {@code LATCH.DOWN} and {@code LATCH.WAIT}. */
    public DistributedCountDownLatch countDownLatch(String key) {
        return new DistributedCountDownLatch(this, key);
    }

    /**
     * Elements that are pushed to a list when they are due: {@code DELAY.PUSH}. In a cluster the name of the list has a
     * hash tag, or no braces.
     */
    public DelayedQueue delayedQueue(String list) {
        return new DelayedQueue(this, list);
    }

    private DistributedLock lock(Request request) {
        String name = String.join("\0", request.keys()) + "\0\0" + String.join("\0", request.modes());
        return new DistributedLock(this, request, name, 0);
    }

    /** {@link #close(Duration)} with 2 seconds. */
    @Override
    public void close() {
        close(CLOSING);
    }

    /**
     * Ends waits with {@link LockException.Closed}, releases what is held, and closes every connection and thread, all
     * within this time. A loss is not reported any more. A second call does nothing.
     */
    public synchronized void close(Duration limit) {
        if (closed) {
            return;
        }
        closed = true;
        long until = System.nanoTime() + MILLISECONDS.toNanos(Texts.ms(limit));
        List<CompletableFuture<Void>> work = new ArrayList<>();
        running.forEach(acquisition -> work.add(acquisition.abandon()));
        holdings.forEach(holding -> work.add(CompletableFuture.runAsync(
                holding::close, task -> workers.endings.add(connections.knownNode(holding.request.key()), task))));
        await(CompletableFuture.allOf(work.toArray(CompletableFuture[]::new)), until);
        end.clean();
        await(ended.copy(), until);
    }

    private static void await(CompletableFuture<Void> work, long until) {
        work.completeOnTimeout(null, Math.max(0, until - System.nanoTime()), NANOSECONDS).join();
    }

    /**
     * Acquires a new hold, with an owner of its own.
     *
     * @param waitMs 0: do not wait, negative: no limit
     * @param thread renewals end when this thread ends; null: none
     * @return null if another owner holds the lock
     */
    Hold tryAcquire(Request request, long waitMs, boolean interruptible, Thread thread) throws InterruptedException {
        Acquisition acquisition = acquisition(request, waitMs);
        Hold hold = hold(acquisition, request, interruptible, thread);
        if (hold == null && acquisition.failure != null) {
            throw acquisition.failure;
        }
        return hold;
    }

    /** The same for a hold that is bound to no thread. */
    Hold acquire(Request request, Duration wait) throws InterruptedException, NotAcquiredException {
        Acquisition acquisition = acquisition(request, LockOptions.checkWait(wait));
        Hold hold = hold(acquisition, request, true, null);
        if (hold == null) {
            throw acquisition.notAcquired();
        }
        return hold;
    }

    private Acquisition acquisition(Request request, long waitMs) {
        return new Acquisition(this, request, newOwner(), request.options().session, waitMs);
    }

    private Hold hold(Acquisition acquisition, Request request, boolean interruptible, Thread thread)
            throws InterruptedException {
        try {
            Object reply = acquisition.run(interruptible);
            if (reply == null) {
                return null;
            }
            Connection session = request.options().session ? acquisition.connection() : null;
            Holding holding = new Holding(this, request, acquisition.owner, reply, session);
            Consumer<Hold> listener = request.options().onLost;
            Hold hold = holding.object(listener);
            holdings.add(holding);
            holding.keeper.start(acquisition.sent, listener != null, thread);
            if (closed) { // close() may have seen neither the acquisition nor the hold as they are now
                holding.close();
                throw new LockException.Closed();
            }
            return hold;
        } finally {
            running.remove(acquisition);
        }
    }

    /** Acquires the other mode of a read-write lock for the same owner, with the hold's lease. False: not in time. */
    boolean extend(Holding hold, Request mode, long waitMs, boolean interruptible) throws InterruptedException {
        Acquisition acquisition = new Acquisition(this, mode, hold.owner, false, waitMs);
        try {
            Object reply = acquisition.run(interruptible);
            if (reply != null) {
                hold.granted(mode, reply);
                if (closed) {
                    throw new LockException.Closed();
                }
            } else if (acquisition.failure != null) {
                throw acquisition.failure;
            }
            return reply != null;
        } finally {
            running.remove(acquisition);
        }
    }

    /** The exception for a command that had no reply. */
    RuntimeException failure(LinkException e) {
        return closed ? new LockException.Closed() : e.original();
    }

    /** Removes the holds of a thread that has ended, because it cannot unlock them any more. */
    void forget(Thread thread) {
        threads.keySet().removeIf(place -> place.thread() == thread);
    }
}
