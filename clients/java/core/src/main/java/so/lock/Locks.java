package so.lock;

import static java.util.concurrent.TimeUnit.NANOSECONDS;
import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.lang.ref.Cleaner;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.stream.Stream;
import so.lock.Connections.Connection;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;
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
    private static final AtomicLong NUMBERS = new AtomicLong();
    private static final Duration CLOSING = Duration.ofSeconds(2);
    static final String PROCESS = host() + ":" + ProcessHandle.current().pid() + ":";

    /** What lasts, and is ended when the locks are closed. */
    interface Work {
        /** Ends it, without blocking; the future completes when nothing is left to do. */
        CompletableFuture<Void> abandon();
    }

    /** Different for all objects of this process. */
    final long number = NUMBERS.incrementAndGet();
    final Workers workers = new Workers();
    final Connections connections;
    final Set<Work> running = ConcurrentHashMap.newKeySet();
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

    /** A new one, for one acquisition. */
    static String newOwner() {
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

    /** A read-write lock: {@code LOCK.RWREAD} and {@code LOCK.RWWRITE}. Only write locks may be {@link LockOptions#fenced}. */
    public DistributedReadWriteLock readWriteLock(String key, LockOptions options) {
        return new DistributedReadWriteLock(this, key, options);
    }

    /** {@link #readWriteLock(String, LockOptions)} with {@link LockOptions#DEFAULT}. */
    public DistributedReadWriteLock readWriteLock(String key) {
        return readWriteLock(key, LockOptions.DEFAULT);
    }

    /**
     * A multi-key lock, all keys or none in one step: {@code LOCK.MACQUIRE}. In a cluster with one step for each slot, in
     * the order of the slots. A thread that holds it and locks one of its keys by {@link #lock} waits for itself: that is
     * another lock.
     */
    public DistributedLock multiLock(List<String> keys, LockOptions options) {
        return multiLock(Request.multi(List.copyOf(keys), List.of(), options));
    }

    /** A multi-key lock of read-write locks: each key is read or written. */
    public DistributedLock multiLock(MultiKeys keys, LockOptions options) {
        return multiLock(keys.request(options));
    }

    /** {@link #multiLock(MultiKeys, LockOptions)} with {@link LockOptions#DEFAULT}. */
    public DistributedLock multiLock(MultiKeys keys) {
        return multiLock(keys, LockOptions.DEFAULT);
    }

    /** {@link #multiLock(List, LockOptions)} with {@link LockOptions#DEFAULT}. */
    public DistributedLock multiLock(List<String> keys) {
        return multiLock(keys, LockOptions.DEFAULT);
    }

    private DistributedLock multiLock(Request request) {
        Combined slots = Combined.bySlot(this, request);
        return slots.members().size() == 1 ? lock(request) : new DistributedLock(this, slots, name(request), 0);
    }

    /** {@link #multiLock(List, Consumer)} without a listener. */
    public static DistributedLock multiLock(DistributedLock... locks) {
        return combined(List.of(locks), null);
    }

    /**
     * A lock that consists of locks of any kind, also of several servers. They are acquired one after the other, in an
     * order that is the same in all programs: by the server's name, then by the slot, the key and the kind. If one is not
     * acquired, the others are released. Cycles over several servers are not detected; the order prevents them. If one
     * is lost, the hold is lost.
     *
     * @param onLost as {@link LockOptions#onLost}, once for the combined hold
     */
    public static DistributedLock multiLock(List<DistributedLock> locks, Consumer<Hold> onLost) {
        return combined(locks, Objects.requireNonNull(onLost));
    }

    private static DistributedLock combined(List<DistributedLock> locks, Consumer<Hold> onLost) {
        Combined target = Combined.of(locks, onLost);
        String name = String.join("\0\0\0", locks.stream().map(DistributedLock::name).sorted().toList());
        return new DistributedLock(first(target.members().stream().map(Single::locks)), target, name, 0);
    }

    /** The one that knows the threads which hold a lock of several, whatever their order. */
    static Locks first(Stream<Locks> several) {
        return several.min(Comparator.comparingLong(one -> one.number)).orElseThrow();
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
        return new DistributedLock(this, new Single(this, request), name(request), 0);
    }

    private static String name(Request request) {
        return String.join("\0", request.keys()) + "\0\0" + String.join("\0", request.modes());
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
        running.forEach(one -> work.add(one.abandon()));
        holdings.forEach(holding -> work.add(CompletableFuture.runAsync(
                holding::close, task -> workers.endings.add(connections.knownNode(holding.request.key()), task))));
        await(CompletableFuture.allOf(work.toArray(CompletableFuture[]::new)), until);
        end.clean();
        await(ended.copy(), until);
    }

    private static void await(CompletableFuture<Void> work, long until) {
        work.completeOnTimeout(null, Math.max(0, until - System.nanoTime()), NANOSECONDS).join();
    }

    /** The hold of an acquisition; null if it has failed. */
    Hold hold(Acquisition acquisition, Request request, Attempt attempt) throws InterruptedException {
        try {
            Object reply = acquisition.run(attempt.interruptible());
            if (reply == null) {
                return null;
            }
            Connection session = request.options().session ? acquisition.connection() : null;
            Holding holding = new Holding(this, request, acquisition.owner, reply, session);
            Consumer<Hold> listener = request.options().onLost;
            Hold hold = holding.object(listener);
            holdings.add(holding);
            holding.keeper.start(acquisition.sent, listener != null || attempt.watched(), attempt.thread());
            if (closed) { // close() may have seen neither the acquisition nor the hold as they are now
                holding.close();
                throw new LockException.Closed(request.named());
            }
            return hold;
        } finally {
            running.remove(acquisition);
        }
    }

    /** Acquires the other mode of a read-write lock for the same owner, with the hold's lease. False: not in time. */
    boolean extend(Holding holding, Request mode, Attempt attempt) throws InterruptedException {
        Acquisition acquisition = new Acquisition(this, mode, holding.owner, false, attempt);
        try {
            Object reply = acquisition.run(attempt.interruptible());
            if (reply != null) {
                holding.granted(mode, reply);
                if (closed) {
                    throw new LockException.Closed(mode.named());
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
    RuntimeException failure(LockName named, LinkException e) {
        return closed ? new LockException.Closed(named) : e.original();
    }

    /** The exception for an error reply to a command for this key. */
    RuntimeException refusal(LockName named, ServerException e, String key) {
        return LockException.of(named, e, connections.address(connections.knownNode(key)));
    }

    /** Removes the holds of a thread that has ended, because it cannot unlock them any more. */
    void forget(Thread thread) {
        threads.keySet().removeIf(place -> place.thread() == thread);
    }

    @Override
    public String toString() {
        return "Locks[" + connections.address(connections.knownNode("")) + "]";
    }
}
