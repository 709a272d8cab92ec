package so.lock.conformance;

import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import so.lock.Locks;

/** A library: creates a user's client, and the locks for it. */
interface Flavour {
    /** A user's client, with locks that were created from it or from its settings. */
    interface User extends AutoCloseable {
        Locks locks();

        /** Other locks on the same client. */
        Locks fresh();

        String get(String key);

        void set(String key, String value);

        void ping();

        /** BLPOP without a time-out, called as users of the library call it. */
        void pop(String key);

        void push(String key, String value);

        /** How many clients are blocked on the server. */
        int blocked();

        @Override
        void close();
    }

    /**
     * Connects.
     *
     * @param to the protocol's description of server, cluster or Sentinel
     * @param pool the size of the user's pool, if the library has one; 0: the default
     */
    User connect(JsonObject to, int pool);

    static Flavour of(String name) {
        return switch (name) {
            case "jedis" -> new JedisFlavour();
            case "lettuce" -> new LettuceFlavour();
            default -> throw new IllegalArgumentException("no such flavour: " + name);
        };
    }

    static List<Integer> ports(JsonObject to) {
        List<Integer> ports = new ArrayList<>();
        to.getAsJsonArray("ports").forEach(port -> ports.add(port.getAsInt()));
        return ports;
    }

    /** How many clients are blocked, from the reply to INFO clients. */
    static int blocked(String info) {
        return info.lines()
                .filter(line -> line.startsWith("blocked_clients:"))
                .mapToInt(line -> Integer.parseInt(line.substring(line.indexOf(':') + 1).strip()))
                .sum();
    }
}
