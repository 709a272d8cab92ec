package field;

import java.util.ArrayList;
import java.util.List;
import java.util.StringJoiner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

/** Holders and waiters. */
final class Standing {
    private static final int HANDS = 16;

    private Standing() {
    }

    private interface Task {
        void run() throws Exception;
    }

    private static Thread start(Task task) {
        Thread thread = new Thread(() -> {
            try {
                task.run();
            } catch (Throwable error) {
                Talk.fail(error);
            }
        });
        thread.start();
        return thread;
    }

    static void hold(Library library, String kind, int count, int from) throws Exception {
        List<Worker> workers = new ArrayList<>();
        for (int hand = 0; hand < Math.min(HANDS, count); hand++) {
            workers.add(library.worker(kind, 0));
        }
        Talk.say("connected", "");
        Talk.awaitLine();
        List<Thread> threads = new ArrayList<>();
        for (Worker worker : workers) {
            int first = from + threads.size();
            threads.add(start(() -> {
                for (int i = first; i < from + count; i += HANDS) {
                    worker.acquire(ClosedLoops.LOCK + "-" + i);
                }
            }));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        Talk.say("held", "");
        Talk.awaitLine();
    }

    static void await(Library library, String kind) throws Exception {
        Worker worker = library.worker(kind, 0);
        Talk.say("connected", "");
        Talk.awaitLine();
        Talk.say("asking", "");
        worker.acquire(ClosedLoops.LOCK + "-0");
        Talk.say("granted", "\"ns\":%d", System.nanoTime());
        Talk.awaitLine();
    }

    static void crowd(Library library, String kind, int count) throws Exception {
        Worker holder = library.worker(kind, 0);
        Talk.say("connected", "");
        Talk.awaitLine();
        holder.acquire(ClosedLoops.LOCK);
        for (int i = 0; i < count; i++) {
            Worker worker = library.worker(kind, 0);
            start(() -> worker.acquire(ClosedLoops.LOCK));
        }
        Talk.say("waiting", "");
        Talk.awaitLine();
    }

    /** One waiter of the queue; granted and released are 0 if it gave up. */
    private static final class Place {
        private long asked;
        private long granted;
        private long released;

        @Override
        public String toString() {
            return "{\"asked\":" + asked + ",\"granted\":" + granted + ",\"released\":" + released + "}";
        }
    }

    /** The waiters of a queue, and when the holder before them released the lock. */
    private record Queue(List<Place> places, long released) {
    }

    /**
     * A queue in which one of `every` waiters gives up after the limit. It is drained twice: the first time the connections
     * are opened, which takes some libraries longer than the time between two requests.
     */
    static void drain(Library library, String kind, int waiters, int every, int limitMs, int spacingUs)
            throws Exception {
        Worker holder = library.worker(kind, 0);
        List<Worker> workers = new ArrayList<>();
        for (int i = 0; i < waiters; i++) {
            workers.add(library.worker(kind, 0));
        }
        queue(holder, workers, every, limitMs, spacingUs, () -> { });
        Queue queue = queue(holder, workers, every, limitMs, spacingUs, () -> {
            Talk.say("ready", "");
            Talk.awaitLine();
        });
        StringJoiner text = new StringJoiner(",", "[", "]");
        queue.places().forEach(place -> text.add(place.toString()));
        Talk.say("done", "\"released\":%d,\"places\":%s", queue.released(), text);
        Talk.awaitLine();
    }

    /**
     * All workers request the lock, `spacingUs` apart. When all that give up have done so, `ready` is run, and each of the
     * others acquires the lock once.
     */
    private static Queue queue(Worker holder, List<Worker> workers, int every, int limitMs, int spacingUs, Task ready)
            throws Exception {
        holder.acquire(ClosedLoops.LOCK);
        List<Place> places = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        CountDownLatch leaving = new CountDownLatch(workers.size() / every);
        for (Worker worker : workers) {
            Place place = new Place();
            places.add(place);
            boolean impatient = places.size() % every == 0;
            CountDownLatch asking = new CountDownLatch(1);
            threads.add(start(() -> {
                place.asked = System.nanoTime();
                asking.countDown();
                stand(worker, place, impatient ? limitMs : 0, leaving);
            }));
            asking.await();
            LockSupport.parkNanos(spacingUs * 1000L);
        }
        leaving.await();
        ready.run();
        long released = System.nanoTime();
        holder.release(ClosedLoops.LOCK);
        for (Thread thread : threads) {
            thread.join();
        }
        return new Queue(places, released);
    }

    private static void stand(Worker worker, Place place, int limitMs, CountDownLatch leaving) throws Exception {
        if (limitMs > 0) {
            boolean got = worker.acquireWithin(ClosedLoops.LOCK, limitMs);
            leaving.countDown();
            if (!got) {
                return;
            }
        } else {
            worker.acquire(ClosedLoops.LOCK);
        }
        place.granted = System.nanoTime();
        place.released = System.nanoTime();
        worker.release(ClosedLoops.LOCK);
    }

    /** Waiters of a latch; measures how long after its opening each is notified. */
    static void latch(Library library, int waiters) throws Exception {
        library.closeLatch(ClosedLoops.LOCK);
        long[] notified = new long[waiters];
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < waiters; i++) {
            int mine = i;
            Worker worker = library.worker("latch", 0);
            threads.add(start(() -> {
                worker.acquire(ClosedLoops.LOCK);
                notified[mine] = System.nanoTime();
            }));
        }
        Talk.say("ready", "");
        Talk.awaitLine();
        long opened = System.nanoTime();
        library.openLatch(ClosedLoops.LOCK);
        for (Thread thread : threads) {
            thread.join();
        }
        List<Long> late = new ArrayList<>();
        for (long at : notified) {
            late.add(at - opened);
        }
        Talk.say("done", "\"us\":%s", Talk.micros(late));
        Talk.awaitLine();
    }
}
