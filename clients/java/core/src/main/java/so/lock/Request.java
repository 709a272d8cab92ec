package so.lock;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Predicate;
import java.util.stream.IntStream;

/**
 * A request for a lock, and the arguments of its commands. Each acquisition has a new owner.
 *
 * @param modes READ or WRITE for each key of a multi-key lock of read-write locks; otherwise empty
 */
record Request(Kind kind, List<String> keys, List<String> modes, int limit, int permits, LockOptions options) {
    /** The option that binds a hold to the connection. */
    static final List<String> SESSION = List.of("SESSION");

    enum Kind {
        LOCK("LOCK.ACQUIRE", "lock"),
        FAIR("LOCK.FAIR", "fair lock"),
        READ("LOCK.RWREAD", "read lock"),
        WRITE("LOCK.RWWRITE", "write lock"),
        MULTI("LOCK.MACQUIRE", "multi-key lock"),
        SEMAPHORE("LOCK.SEMAPHORE", "semaphore");

        final String command;
        final String name;

        Kind(String command, String name) {
            this.command = command;
            this.name = name;
        }
    }

    Request {
        boolean tokens = kind == Kind.LOCK || kind == Kind.FAIR || kind == Kind.WRITE;
        if (options.fenced && !tokens) {
            throw new IllegalArgumentException("fenced: a " + kind.name + " has no fencing token");
        }
        if (keys.isEmpty()) {
            throw new IllegalArgumentException("keys must not be empty");
        }
        if (limit < 1) {
            throw new IllegalArgumentException("limit must be at least 1, not " + limit);
        }
        if (permits < 1 || permits > limit) {
            throw new IllegalArgumentException("permits must be from 1 to the limit of " + limit + ", not " + permits);
        }
    }

    /** A lock of one key. */
    static Request of(Kind kind, String key, LockOptions options) {
        return new Request(kind, List.of(Objects.requireNonNull(key, "key")), List.of(), 1, 1, options);
    }

    /** A lock of several keys. */
    static Request multi(List<String> keys, List<String> modes, LockOptions options) {
        return new Request(Kind.MULTI, keys, modes, 1, 1, options);
    }

    /** The same without the listener, which may refer to the hold: a forgotten hold would not be collected. */
    Request withoutListener() {
        return new Request(kind, keys, modes, limit, permits, options.with(copy -> copy.onLost = null));
    }

    /** The same with another lease. */
    Request withLease(long ms) {
        return new Request(kind, keys, modes, limit, permits, options.with(copy -> copy.leaseMs = ms));
    }

    /** The same for some of the keys. */
    Request only(Predicate<String> which) {
        List<Integer> places = IntStream.range(0, keys.size()).filter(i -> which.test(keys.get(i))).boxed().toList();
        return multi(places.stream().map(keys::get).toList(),
                modes.isEmpty() ? modes : places.stream().map(modes::get).toList(), options);
    }

    /** The lock in texts: {@code fair lock "k"}. */
    LockName named() {
        return LockName.of(kind.name, keys);
    }

    /** The key by which commands are routed: in a cluster all keys are in one slot. */
    String key() {
        return keys.get(0);
    }

    long leaseMs() {
        return options.leaseMs;
    }

    /**
     * The command that acquires the lock.
     *
     * @param blockMs how long the command blocks; negative: it does not block, 0: no limit
     * @param session whether the hold is bound to the connection
     */
    List<String> acquire(String owner, long blockMs, boolean session) {
        List<String> words = new ArrayList<>(kind == Kind.MULTI
                ? words(List.of(several(kind.command, owner), modeWords()))
                : List.of(kind.command, key(), owner));
        if (kind == Kind.SEMAPHORE) {
            words.addAll(List.of(Integer.toString(limit), "PERMITS", Integer.toString(permits)));
        }
        words.addAll(session ? SESSION : px(leaseMs()));
        if (blockMs >= 0) {
            words.addAll(List.of("BLOCK", Long.toString(blockMs)));
        }
        if (options.fenced) {
            words.add("FENCED");
        }
        words.add("ONCE");
        words.addAll(replicas());
        return words;
    }

    /** Releases a hold; of a semaphore, {@code count} permits. */
    List<String> release(String owner, int count) {
        if (kind == Kind.MULTI) {
            return words(List.of(several("LOCK.MRELEASE", owner), modeWords()));
        }
        return words(List.of(List.of("LOCK.RELEASE", key(), owner), which(count)));
    }

    /**
     * Ends a wait, or releases the hold if it was granted already. For a multi-key lock it ends only the wait, because
     * RELEASE would release the hold of this key only; {@link #release} must follow.
     */
    List<String> cancel(String owner) {
        List<String> words = List.of("LOCK.CANCEL", key(), owner);
        return kind == Kind.MULTI ? words : words(List.of(words, List.of("RELEASE"), which(permits)));
    }

    /**
     * Renews the leases of all keys, or none.
     *
     * @param lease {@link #SESSION}, {@link #px}, or nothing: then the hold stays bound to its connection
     */
    List<String> renew(String owner, List<String> lease) {
        List<String> words = keys.size() > 1 ? several("LOCK.MRENEW", owner) : List.of("LOCK.RENEW", key(), owner);
        return words(List.of(words, lease, replicas()));
    }

    private List<String> several(String command, String owner) {
        return words(List.of(List.of(command, Integer.toString(keys.size())), keys, List.of(owner)));
    }

    private List<String> modeWords() {
        return modes.isEmpty() ? modes : words(List.of(List.of("MODES"), modes));
    }

    /** Runs a command while the owner holds the first key. */
    List<String> guard(String owner, List<String> command) {
        return words(List.of(List.of("LOCK.GUARD", key(), owner), command));
    }

    /** @param count how many waiters to show */
    static List<String> info(String key, String count) {
        return List.of("LOCK.INFO", key, "COUNT", count);
    }

    /** A field of a map of LOCK.INFO, which is a list of keys and values; null if there is none. */
    static Object field(Object map, String name) {
        List<?> words = map instanceof List<?> list ? list : List.of();
        for (int i = 0; i + 1 < words.size(); i += 2) {
            if (name.equals(words.get(i))) {
                return words.get(i + 1);
            }
        }
        return null;
    }

    /** The holders in the reply to {@link #info}. */
    static List<?> holders(Object info) {
        return field(info, "holders") instanceof List<?> holders ? holders : List.of();
    }

    static List<String> watch(String key, String owner, long blockMs) {
        return List.of("LOCK.WATCH", key, owner, "BLOCK", Long.toString(blockMs));
    }

    /** The option for a lease of this length. */
    static List<String> px(long ms) {
        return List.of("PX", Long.toString(ms));
    }

    private List<String> replicas() {
        return options.replicas == 0
                ? List.of()
                : List.of("REPLICAS", Integer.toString(options.replicas),
                        Long.toString(options.replicasMs));
    }

    private List<String> which(int count) {
        return switch (kind) {
            case READ -> List.of("READ");
            case WRITE -> List.of("WRITE");
            case SEMAPHORE -> List.of("PERMITS", Integer.toString(count));
            default -> List.of();
        };
    }

    static List<String> words(List<List<String>> parts) {
        List<String> words = new ArrayList<>();
        for (List<String> part : parts) {
            words.addAll(part);
        }
        return words;
    }
}
