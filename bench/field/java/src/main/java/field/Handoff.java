package field;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** From a release to the next grant, with a number of waiters. While the gate is shut the holder keeps the lock. */
final class Handoff {
    private final List<Long> nanos = new ArrayList<>();
    private final CountDownLatch ready = new CountDownLatch(1);
    private final CountDownLatch gate = new CountDownLatch(1);
    private final CountDownLatch over = new CountDownLatch(1);
    private final int warm;
    private final long warmNanos;
    private final int rounds;
    private final int holdMs;
    private int generation;
    private long warmUntil;
    private boolean isWarm;
    private long releasedAt;
    private boolean counting;

    private Handoff(int warm, int warmMs, int rounds, int holdMs) {
        this.warm = warm;
        this.warmNanos = warmMs * 1_000_000L;
        this.rounds = rounds;
        this.holdMs = holdMs;
    }

    /** Records the grant, and lets the worker that has released continue. */
    private void granted(long now) throws InterruptedException {
        boolean shut;
        boolean last;
        synchronized (this) {
            generation++;
            notifyAll();
            if (counting) {
                nanos.add(now - releasedAt);
            }
            if (generation == 1) {
                warmUntil = now + warmNanos;
            }
            shut = !isWarm && generation >= warm && now >= warmUntil;
            isWarm |= shut;
            last = nanos.size() == rounds;
        }
        if (shut) {
            ready.countDown();
            gate.await();
        }
        if (last) {
            over.countDown();
            Thread.sleep(Long.MAX_VALUE);
        }
    }

    /** Returns the number of this hold. Called immediately before the release. */
    private synchronized int releasing() {
        releasedAt = System.nanoTime();
        return generation;
    }

    /** Waits until another worker was granted the lock, so that the worker that has released it can only join the queue. */
    private synchronized void awaitNext(int mine) throws InterruptedException {
        while (generation == mine) {
            wait();
        }
    }

    private void work(Worker worker) {
        try {
            while (true) {
                worker.acquire(ClosedLoops.LOCK);
                granted(System.nanoTime());
                Thread.sleep(holdMs);
                int mine = releasing();
                worker.release(ClosedLoops.LOCK);
                awaitNext(mine);
            }
        } catch (Throwable error) {
            Talk.fail(error);
        }
    }

    /** The warm-up is `warm` hand-offs and `warmMs` at least. */
    static void run(Library library, String kind, int waiters, int warm, int warmMs, int rounds, int limitMs, int holdMs)
            throws Exception {
        Handoff shared = new Handoff(warm, warmMs, rounds, holdMs);
        for (int i = 0; i < waiters + 1; i++) {
            Worker worker = library.worker(kind, 0);
            new Thread(() -> shared.work(worker)).start();
        }
        shared.ready.await();
        Talk.say("ready", "");
        Talk.awaitLine();
        synchronized (shared) {
            shared.counting = true;
        }
        shared.gate.countDown();
        shared.over.await(limitMs, TimeUnit.MILLISECONDS);
        synchronized (shared) {
            Talk.say("done", "\"us\":%s,\"gave_up\":0", Talk.micros(shared.nanos));
            Talk.awaitLine();
        }
    }
}
