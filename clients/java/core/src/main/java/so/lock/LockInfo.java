package so.lock;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Who holds a lock and who waits for it. Of a free lock both lists are empty.
 *
 * @param holders the owners that hold one of its keys
 * @param waiting how many clients wait for it, for all keys together
 * @param waiters the first 10 of them for each key, in the order of the queue
 */
public record LockInfo(List<Holder> holders, long waiting, List<Waiter> waiters) {
    /**
     * An owner that holds a key.
     *
     * @param key the key
     * @param owner its name, {@code host:pid:random} if it uses one of these packages
     * @param mode {@code exclusive}, {@code write}, {@code read} or {@code semaphore}
     * @param holds how many holds or permits it has
     * @param left how long the lease lasts without a renewal; empty if it has no end
     * @param session whether the hold is bound to a connection
     */
    public record Holder(String key, String owner, String mode, long holds, Optional<Duration> left, boolean session) {}

    /**
     * An owner that waits for a key.
     *
     * @param key the key
     * @param owner its name
     * @param mode {@code exclusive}, {@code write}, {@code read} or {@code semaphore}
     * @param fair whether it is in the fair queue
     * @param waited for how long it has waited
     * @param left for how long it will still wait; empty if it has no limit
     */
    public record Waiter(String key, String owner, String mode, boolean fair, Duration waited, Optional<Duration> left) {}

    /** That of a lock which consists of these. */
    static LockInfo merged(Stream<LockInfo> parts) {
        List<LockInfo> all = parts.toList();
        return new LockInfo(
                all.stream().flatMap(part -> part.holders.stream()).toList(),
                all.stream().mapToLong(LockInfo::waiting).sum(),
                all.stream().flatMap(part -> part.waiters.stream()).toList());
    }

    /** From the reply to LOCK.INFO. */
    static LockInfo of(String key, Object reply) {
        List<?> waiters = Request.field(reply, "waiters") instanceof List<?> list ? list : List.of();
        return new LockInfo(
                Request.holders(reply).stream().map(holder -> holder(key, holder)).toList(),
                Request.field(reply, "waiting") instanceof Long waiting ? waiting : 0,
                waiters.stream().map(waiter -> waiter(key, waiter)).toList());
    }

    private static Holder holder(String key, Object map) {
        return new Holder(key, (String) Request.field(map, "owner"), (String) Request.field(map, "mode"),
                (Long) Request.field(map, "holds"), time(map, "pttl"), Request.field(map, "session") != null);
    }

    private static Waiter waiter(String key, Object map) {
        return new Waiter(key, (String) Request.field(map, "owner"), (String) Request.field(map, "mode"),
                Long.valueOf(1).equals(Request.field(map, "fair")), time(map, "waited").orElse(Duration.ZERO),
                time(map, "left"));
    }

    private static Optional<Duration> time(Object map, String name) {
        return Request.field(map, name) instanceof Long ms && ms >= 0
                ? Optional.of(Duration.ofMillis(ms))
                : Optional.empty();
    }
}
