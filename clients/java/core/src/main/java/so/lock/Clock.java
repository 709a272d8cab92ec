package so.lock;

import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * One thread that runs short tasks when they are due, up to 20 ms late. A timer of the JDK wakes its thread for each
 * new first entry, which would slow down every grant of a free lock.
 */
final class Clock {
    private static final long TICK = 20_000_000; // ns
    private static final long NAP = 1_000_000_000;

    /** When a task is due, by nanoTime; the number distinguishes equal times. */
    record Entry(long time, long number) implements Comparable<Entry> {
        @Override
        public int compareTo(Entry other) {
            int order = Long.signum(time - other.time);
            return order != 0 ? order : Long.compare(number, other.number);
        }
    }

    private final ConcurrentSkipListMap<Entry, Runnable> due = new ConcurrentSkipListMap<>();
    private final AtomicLong numbers = new AtomicLong();
    private final Thread thread;
    private volatile boolean asleep;
    private volatile boolean closed;

    Clock() {
        thread = new Thread(this::run, "lock-so-clock");
        thread.setDaemon(true);
        thread.start();
    }

    /** Runs a task at that time or soon after; the task must not block. */
    Entry at(long time, Runnable what) {
        Entry entry = new Entry(time, numbers.incrementAndGet());
        due.put(entry, what);
        if (asleep) {
            LockSupport.unpark(thread);
        }
        return entry;
    }

    /** Removes a task; null is ignored. */
    void cancel(Entry entry) {
        if (entry != null) {
            due.remove(entry);
        }
    }

    void close() {
        closed = true;
        LockSupport.unpark(thread);
    }

    private void run() {
        long last = System.nanoTime();
        while (!closed) {
            long now = System.nanoTime();
            Map.Entry<Entry, Runnable> first = due.firstEntry();
            if (first != null) {
                last = now;
            }
            if (first != null && first.getKey().time - now <= 0) {
                due.remove(first.getKey());
                run(first.getValue());
            } else if (first == null && now - last > NAP) {
                sleep();
            } else {
                LockSupport.parkNanos(this, first == null ? TICK : Math.min(TICK, first.getKey().time - now));
            }
        }
    }

    /** An error in one task must not end the renewals of all holds. */
    private static void run(Runnable task) {
        try {
            task.run();
        } catch (RuntimeException | Error e) {
            Locks.LOG.log(System.Logger.Level.ERROR, "error in a timed task", e);
        }
    }

    private void sleep() {
        asleep = true;
        while (due.isEmpty() && !closed) {
            LockSupport.park(this);
        }
        asleep = false;
    }
}
