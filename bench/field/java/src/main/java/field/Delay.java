package field;

import java.io.IOException;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;

/** The delayed queue, by Jedis and by Redisson. README.md in bench/field says what each command does and prints. */
public final class Delay {
    private static final int WARM = 500;

    private Delay() {
    }

    public static void main(String[] args) throws Exception {
        boolean withObject = !args[args.length - 1].equals("plain");
        int port = Integer.parseInt(args[2]);
        Delayed queue = switch (args[0]) {
            case "jedis" -> new JedisDelayed(port, args[3]);
            case "redisson" -> new RedissonDelayed(port, args[3], withObject);
            default -> throw new IllegalArgumentException(args[0]);
        };
        switch (args[1]) {
            case "flow" -> flow(queue, number(args[4]), number(args[5]), number(args[6]), number(args[7]));
            case "push" -> push(queue, number(args[4]), number(args[5]));
            case "take" -> take(queue, number(args[4]), number(args[5]));
            case "wait" -> waitIdly(queue, number(args[4]));
            default -> throw new IllegalArgumentException(args[1]);
        }
        // Redisson's threads would keep the process alive; how its connections end is not measured.
        Runtime.getRuntime().halt(0);
    }

    private static int number(String text) {
        return Integer.parseInt(text);
    }

    private static void say(String format, Object... values) {
        System.out.println(String.format(Locale.ROOT, format, values));
        System.out.flush();
    }

    private static void awaitLine() throws IOException {
        int read;
        do {
            read = System.in.read();
        } while (read != '\n' && read != -1);
    }

    private static void flow(Delayed queue, int rate, int count, int lowMs, int highMs) throws Exception {
        Taker taker = new Taker(queue);
        pushAll(queue, 'w', 250, WARM, 10, 100);
        taker.awaitWarm(WARM);
        say("{\"at\":\"ready\"}");
        awaitLine();
        double seconds = pushAll(queue, 'e', rate, count, lowMs, highMs);
        taker.await(count, Double.MAX_VALUE);
        say("{\"at\":\"done\",\"pushing_s\":%.3f,\"late_ms\":%s}", seconds, taker.lateJson());
        awaitLine();
    }

    /** Pushes at a steady rate, with delays that are the same in each language; returns how long it took. */
    private static double pushAll(Delayed queue, char letter, int rate, int count, int lowMs, int highMs) {
        long start = System.nanoTime();
        long random = 1;
        for (int i = 0; i < count; i++) {
            long at = start + i * 1_000_000_000L / rate;
            for (long left = at - System.nanoTime(); left > 0; left = at - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            random = random * 48271 % 2147483647;
            long delay = lowMs + random % (highMs - lowMs + 1);
            queue.push(Element.make(letter, Element.nowMs() + delay), delay);
        }
        return (System.nanoTime() - start) / 1e9;
    }

    private static void push(Delayed queue, int count, int delayMs) throws Exception {
        double due = 0;
        for (int i = 0; i < count; i++) {
            due = Element.nowMs() + delayMs;
            queue.push(Element.make('e', due), delayMs);
        }
        say("{\"at\":\"pushed\",\"due_ms\":%.3f}", due);
        awaitLine();
    }

    private static void take(Delayed queue, int count, int seconds) throws Exception {
        double start = Element.nowMs();
        Taker taker = new Taker(queue);
        taker.await(count, start + seconds * 1e3);
        say("{\"at\":\"done\",\"start_ms\":%.3f,\"late_ms\":%s,\"received_ms\":%s}", start, taker.lateJson(),
                taker.receivedJson());
        awaitLine();
    }

    private static void waitIdly(Delayed queue, int delayMs) throws Exception {
        new Taker(queue);
        queue.push(Element.make('e', Element.nowMs() + delayMs), delayMs);
        say("{\"at\":\"ready\"}");
        awaitLine();
    }
}
