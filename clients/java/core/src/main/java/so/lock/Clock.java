package so.lock;

import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * One thread that runs short things when they are due, up to 20 ms late. A timer of the JDK's wakes its thread for each
 * new first entry, and with it would slow down every grant of a lock that nobody held a moment ago.
 */
final class Clock {
    private static final long TICK = 20_000_000; // ns
    private static final long NAP = 1_000_000_000;

    /** When something is due, by nanoTime; the number tells equal times apart. */
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

    /** Runs it at that time or soon after; it must not wait. */
    Entry at(long time, Runnable what) {
        Entry entry = new Entry(time, numbers.incrementAndGet());
        due.put(entry, what);
        if (asleep) {
            LockSupport.unpark(thread);
        }
        return entry;
    }

    /** Null is nothing. */
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
                first.getValue().run();
            } else if (first == null && now - last > NAP) {
                sleep();
            } else {
                LockSupport.parkNanos(this, first == null ? TICK : Math.min(TICK, first.getKey().time - now));
            }
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
