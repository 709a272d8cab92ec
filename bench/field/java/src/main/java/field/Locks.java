package field;

import java.util.Arrays;

/** Locks, by Jedis, Redisson and Curator. README.md in bench/field says what each command does and prints. */
public final class Locks {
    /** For locks that have no lease by default. */
    private static int leaseMs = 30000;

    private Locks() {
    }

    public static void main(String[] args) {
        try {
            String[] who = args[0].split(":");
            int[] numbers = Arrays.stream(args).skip(3).mapToInt(Integer::parseInt).toArray();
            // A longer lease, for locks that must not expire during the measurement.
            if (args[1].equals("crowd") || args[1].equals("drain") || args[1].equals("hold") && numbers[0] > 1) {
                leaseMs = 600000;
            }
            Library library = library(who[0], Integer.parseInt(args[2]), workersOf(args[1], numbers));
            run(library, who.length > 1 ? who[1] : "lock", args[1], numbers);
        } catch (Throwable error) {
            Talk.fail(error);
        }
        // Some threads still wait.
        Runtime.getRuntime().halt(0);
    }

    private static Library library(String name, int port, int workers) throws Exception {
        return switch (name) {
            case "jedis" -> new JedisLocks(port, workers, leaseMs, "lock");
            case "setnx", "setdel" -> new JedisLocks(port, workers, leaseMs, name);
            case "redisson" -> new RedissonLocks(port, workers);
            case "curator" -> new CuratorLocks(port);
            default -> throw new IllegalArgumentException(name);
        };
    }

    /** How many workers a command has at most: a pool of connections has to be as large. */
    private static int workersOf(String command, int[] numbers) {
        return switch (command) {
            case "hold", "await" -> 16;
            case "rw" -> numbers[0] + numbers[1];
            default -> numbers[0] + 1;
        };
    }

    private static void run(Library library, String kind, String command, int[] n) throws Exception {
        switch (command) {
            case "pair" -> ClosedLoops.pair(library, kind, n[0], n[1], n[2]);
            case "turns" -> ClosedLoops.turns(library, library("setdel", n[4], n[0] + 1), kind, n[0], n[1], n[2], n[3]);
            case "hot" -> ClosedLoops.hot(library, kind, n[0], n[1], n[2], n[3]);
            case "rw" -> ClosedLoops.readersAndWriters(library, n[0], n[1], n[2], n[3]);
            case "semaphore" -> ClosedLoops.semaphore(library, n[0], n[1], n[2], n[3]);
            case "handoff" -> Handoff.run(library, kind, n[0], n[1], n[2], n[3], n[4], n[5]);
            case "hold" -> Standing.hold(library, kind, n[0], n[1]);
            case "await" -> Standing.await(library, kind);
            case "crowd" -> Standing.crowd(library, kind, n[0]);
            case "drain" -> Standing.drain(library, kind, n[0], n[1], n[2], n[3]);
            case "latch" -> Standing.latch(library, n[0]);
            default -> throw new IllegalArgumentException(command);
        }
    }
}
