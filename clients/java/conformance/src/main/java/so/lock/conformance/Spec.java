package so.lock.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Function;
import so.lock.DistributedLock;
import so.lock.DistributedSemaphore;
import so.lock.Hold;
import so.lock.LockInfo;
import so.lock.LockOptions;
import so.lock.Locks;
import so.lock.MultiKeys;
import so.lock.RedLock;

/**
 * The protocol's description of a lock.
 *
 * @param named finds the locks of a connection by its name
 */
record Spec(JsonObject lock, Function<String, Locks> named) {
    private static final int LEASE_MS = 30_000;
    private static final Map<List<Locks>, RedLock> RED_LOCKS = new ConcurrentHashMap<>();

    /** What a worker calls before and after its work, as with the JDK's classes. */
    record Pair(Interruptible take, Runnable give) {}

    interface Interruptible {
        void run() throws InterruptedException;
    }

    /** @param waitMs null: no limit */
    Hold acquire(Locks locks, Long waitMs, Consumer<Hold> onLost) throws InterruptedException, TimeoutException {
        if (!kind().equals("semaphore") && number("permits", 1) != 1) {
            throw new IllegalArgumentException("permits: only a semaphore has permits");
        }
        if (kind().equals("semaphore") && yes("reentrant", false)) {
            throw new IllegalArgumentException("reentrant: a semaphore is not reentrant");
        }
        DistributedLock one = lock(locks, onLost);
        return waitMs == null ? one.acquireHold() : one.acquireHold(Duration.ofMillis(waitMs));
    }

    Pair pair(Locks locks) {
        if (kind().equals("semaphore")) {
            int permits = number("permits", 1);
            DistributedSemaphore semaphore = semaphore(locks, null);
            return new Pair(() -> semaphore.acquire(permits), () -> semaphore.release(permits));
        }
        DistributedLock lock = lock(locks, null);
        return new Pair(lock::lock, lock::unlock);
    }

    /** One of several acquisitions by a thread. */
    record Entry(String owner, Runnable leaving) {}

    /** Acquires it in the current thread, which may hold it already: with {@code reentrant} as by the JDK's Lock. */
    Entry enter(Locks locks, Long waitMs) throws InterruptedException, TimeoutException {
        if (!yes("reentrant", false) || kind().equals("semaphore")) {
            Hold hold = acquire(locks, waitMs, null);
            return new Entry(hold.owner(), hold::release);
        }
        DistributedLock lock = lock(locks, null);
        if (waitMs == null) {
            lock.lockInterruptibly();
        } else if (!lock.tryLock(waitMs, TimeUnit.MILLISECONDS)) {
            throw new TimeoutException("it was not acquired within " + waitMs + " ms");
        }
        return new Entry(lock.currentHold().owner(), lock::unlock);
    }

    boolean isLocked(Locks locks) {
        return lock(locks, null).isLocked();
    }

    LockInfo info(Locks locks) {
        return lock(locks, null).info();
    }

    boolean force(Locks locks) {
        return lock(locks, null).forceUnlock();
    }

    boolean onlyReads() {
        return kind().equals("read");
    }

    private DistributedSemaphore semaphore(Locks locks, Consumer<Hold> onLost) {
        return locks.semaphore(keys().get(0), number("limit", 1), options(onLost, LEASE_MS));
    }

    private DistributedLock lock(Locks locks, Consumer<Hold> onLost) {
        if (kind().equals("redlock")) {
            return redLock().lock(keys().get(0), options(onLost, 10_000));
        }
        if (kind().equals("combine")) {
            return combined(onLost);
        }
        LockOptions options = options(onLost, LEASE_MS);
        if (kind().equals("multi")) {
            return lock.has("modes") ? locks.multiLock(modes(), options) : locks.multiLock(keys(), options);
        }
        String key = keys().get(0);
        return switch (kind()) {
            case "semaphore" -> semaphore(locks, onLost).asLock(number("permits", 1));
            case "lock" -> locks.lock(key, options);
            case "fair" -> locks.fairLock(key, options);
            case "read" -> locks.readWriteLock(key, options).readLock();
            case "write" -> locks.readWriteLock(key, options).writeLock();
            default -> throw new IllegalArgumentException("no such kind: " + kind());
        };
    }

    private DistributedLock combined(Consumer<Hold> onLost) {
        List<DistributedLock> members = new ArrayList<>();
        for (JsonElement element : lock.getAsJsonArray("members")) {
            JsonObject member = element.getAsJsonObject();
            Locks locks = named.apply(member.get("on").getAsString());
            members.add(new Spec(member.getAsJsonObject("lock"), named).lock(locks, null));
        }
        return onLost == null
                ? Locks.multiLock(members.toArray(DistributedLock[]::new))
                : Locks.multiLock(members, onLost);
    }

    /** One object for the same servers, as in a program. */
    private RedLock redLock() {
        List<Locks> servers = new ArrayList<>();
        lock.getAsJsonArray("on").forEach(name -> servers.add(named.apply(name.getAsString())));
        return RED_LOCKS.computeIfAbsent(servers, RedLock::over);
    }

    private LockOptions options(Consumer<Hold> onLost, int leaseMs) {
        JsonElement replicas = lock.get("replicas");
        JsonArray pair = replicas == null || replicas.isJsonNull() ? null : replicas.getAsJsonArray();
        LockOptions options = LockOptions.DEFAULT.withLease(Duration.ofMillis(number("lease_ms", leaseMs)));
        options = yes("session", false) ? options.inSession() : options;
        options = yes("fenced", false) ? options.fenced() : options;
        options = yes("renew", true) ? options : options.withoutRenewal();
        options = onLost == null ? options : options.onLost(onLost);
        return pair == null
                ? options
                : options.withReplicas(pair.get(0).getAsInt(), Duration.ofMillis(pair.get(1).getAsLong()));
    }

    /** Whether a loss is to be reported. */
    boolean watched() {
        return failing() || yes("watch", false);
    }

    /** Whether the listener is to fail. */
    boolean failing() {
        JsonElement watch = lock.get("watch");
        return watch != null && watch.isJsonPrimitive() && watch.getAsJsonPrimitive().isString();
    }

    private String kind() {
        return lock.get("kind").getAsString();
    }

    private List<String> keys() {
        List<String> keys = new ArrayList<>();
        lock.getAsJsonArray("keys").forEach(key -> keys.add(key.getAsString()));
        return keys;
    }

    private MultiKeys modes() {
        MultiKeys keys = new MultiKeys();
        for (int i = 0; i < keys().size(); i++) {
            String key = keys().get(i);
            keys = lock.getAsJsonArray("modes").get(i).getAsString().equals("read") ? keys.read(key) : keys.write(key);
        }
        return keys;
    }

    private int number(String name, int otherwise) {
        JsonElement value = lock.get(name);
        return value == null || value.isJsonNull() ? otherwise : value.getAsInt();
    }

    private boolean yes(String name, boolean otherwise) {
        JsonElement value = lock.get(name);
        return value == null || value.isJsonNull() ? otherwise : value.getAsBoolean();
    }
}
