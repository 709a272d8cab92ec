package so.lock.conformance;

import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import so.lock.Locks;

/** A library: what it takes to be its user, and to have locks beside that. */
interface Flavour {
    /** A user's client, with the locks that were made from it or from its settings. */
    interface User extends AutoCloseable {
        Locks locks();

        String get(String key);

        void set(String key, String value);

        void ping();

        /** BLPOP without a limit, as users of the library would call it. */
        void pop(String key);

        void push(String key, String value);

        /** How many clients are blocked, as the server says. */
        int blocked();

        @Override
        void close();
    }

    /**
     * Connects.
     *
     * @param to the protocol's description of server, cluster or Sentinel
     * @param pool how many connections the user's pool may have, if the library has one; 0: as it is by default
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

    /** From the text of INFO clients. */
    static int blocked(String info) {
        return info.lines()
                .filter(line -> line.startsWith("blocked_clients:"))
                .mapToInt(line -> Integer.parseInt(line.substring(line.indexOf(':') + 1).strip()))
                .sum();
    }
}
