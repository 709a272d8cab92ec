package field;

import java.util.ArrayList;
import java.util.List;
import java.util.StringJoiner;

/** Each worker repeats the same: it sends the next request when it has released. */
final class ClosedLoops {
    static final String LOCK = "lock";

    /** What is repeated; returns the measured nanoseconds. */
    interface Step {
        long run() throws Exception;
    }

    /**
     * What one worker has done: all its measured times, and how many of its steps ended in time. A step that ends after
     * the end of the measurement counts as a wait, but not in the throughput.
     */
    private static final class Loop {
        private final List<Long> nanos = new ArrayList<>();
        private int inTime;
    }

    private final List<Loop> results;

    /** Runs the loops twice: the first time to warm up. */
    ClosedLoops(List<Step> steps, int warmMs, int lengthMs) throws Exception {
        run(steps, warmMs);
        Talk.say("ready", "");
        Talk.awaitLine();
        results = run(steps, lengthMs);
    }

    private static List<Loop> run(List<Step> steps, int lengthMs) throws InterruptedException {
        long end = System.nanoTime() + lengthMs * 1_000_000L;
        List<Loop> results = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (Step step : steps) {
            Loop mine = new Loop();
            results.add(mine);
            Thread thread = new Thread(() -> repeat(step, end, mine));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return results;
    }

    private static List<Long> together(List<Loop> loops) {
        List<Long> all = new ArrayList<>();
        loops.forEach(loop -> all.addAll(loop.nanos));
        return all;
    }

    private static void repeat(Step step, long end, Loop mine) {
        try {
            while (System.nanoTime() < end) {
                mine.nanos.add(step.run());
                if (System.nanoTime() < end) {
                    mine.inTime++;
                }
            }
        } catch (Throwable error) {
            Talk.fail(error);
        }
    }

    /** The fields about the workers from `from` to before `to`. */
    String fields(String counts, String times, int from, int to) {
        List<Loop> some = results.subList(from, to);
        List<Integer> each = some.stream().map(loop -> loop.inTime).toList();
        return "\"" + counts + "\":" + Talk.counts(each) + ",\"" + times + "\":" + Talk.micros(together(some));
    }

    void done(String fields) throws Exception {
        Talk.say("done", "%s", fields);
        Talk.awaitLine();
    }

    /** A step for each client: it acquires and releases a lock of its own. */
    private static List<Step> pairs(Library library, String kind, int clients) throws Exception {
        List<Step> steps = new ArrayList<>();
        for (int i = 0; i < clients; i++) {
            Worker worker = library.worker(kind, 0);
            String name = LOCK + "-" + i;
            steps.add(() -> {
                long start = System.nanoTime();
                worker.acquire(name);
                worker.release(name);
                return System.nanoTime() - start;
            });
        }
        return steps;
    }

    static void pair(Library library, String kind, int clients, int warmMs, int lengthMs) throws Exception {
        ClosedLoops loops = new ClosedLoops(pairs(library, kind, clients), warmMs, lengthMs);
        loops.done(loops.fields("pairs", "us", 0, clients));
    }

    /** Pairs, alternating with the same by another library. */
    static void turns(Library library, Library other, String kind, int clients, int warmMs, int lengthMs, int count)
            throws Exception {
        List<List<Step>> sides = List.of(pairs(library, kind, clients), pairs(other, kind, clients));
        for (List<Step> side : sides) {
            run(side, warmMs);
        }
        Talk.say("ready", "");
        Talk.awaitLine();
        List<StringJoiner> us = List.of(new StringJoiner(",", "[", "]"), new StringJoiner(",", "[", "]"));
        for (int i = 0; i < 2 * count; i++) {
            int which = (i + 1) / 2 % 2; // 0 1 1 0
            us.get(which).add(Talk.micros(together(run(sides.get(which), lengthMs))));
        }
        Talk.say("done", "\"us\":%s,\"other_us\":%s", us.get(0), us.get(1));
        Talk.awaitLine();
    }

    static void hot(Library library, String kind, int workers, int locks, int warmMs, int lengthMs) throws Exception {
        List<Step> steps = new ArrayList<>();
        for (int i = 0; i < workers; i++) {
            Worker worker = library.worker(kind, 0);
            // The same sequence in all languages.
            long[] random = {i + 1};
            steps.add(() -> {
                random[0] = random[0] * 48271 % 2147483647;
                String name = LOCK + "-" + random[0] % locks;
                long start = System.nanoTime();
                worker.acquire(name);
                long granted = System.nanoTime();
                worker.release(name);
                return granted - start;
            });
        }
        ClosedLoops loops = new ClosedLoops(steps, warmMs, lengthMs);
        loops.done(loops.fields("pairs", "us", 0, workers) + ",\"gave_up\":0");
    }

    /** Waits, holds for a millisecond, and releases; returns how long it waited. */
    private static Step holding(Library library, String kind, int limit) throws Exception {
        Worker worker = library.worker(kind, limit);
        return () -> {
            long start = System.nanoTime();
            worker.acquire(LOCK);
            long granted = System.nanoTime();
            Thread.sleep(1);
            worker.release(LOCK);
            return granted - start;
        };
    }

    static void readersAndWriters(Library library, int readers, int writers, int warmMs, int lengthMs)
            throws Exception {
        List<Step> steps = new ArrayList<>();
        for (int i = 0; i < readers + writers; i++) {
            steps.add(holding(library, i < readers ? "read" : "write", 0));
        }
        ClosedLoops loops = new ClosedLoops(steps, warmMs, lengthMs);
        loops.done(loops.fields("reads", "read_us", 0, readers) + ","
                + loops.fields("writes", "write_us", readers, readers + writers));
    }

    static void semaphore(Library library, int clients, int limit, int warmMs, int lengthMs) throws Exception {
        List<Step> steps = new ArrayList<>();
        for (int i = 0; i < clients; i++) {
            steps.add(holding(library, "semaphore", limit));
        }
        ClosedLoops loops = new ClosedLoops(steps, warmMs, lengthMs);
        loops.done(loops.fields("pairs", "us", 0, clients));
    }
}
