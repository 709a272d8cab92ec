package so.lock.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import so.lock.Hold;

/**
 * Measures the time from a release to the grant, and from RPUSH to the end of BLPOP, in the same rounds. A third client
 * polls for blocked clients, so that the threads of the other two connections are idle in both measurements.
 */
final class Handoff {
    private final Flavour.User a;
    private final Flavour.User b;
    private final Flavour.User observer;
    private final Spec spec;
    private final ExecutorService waiter = Executors.newSingleThreadExecutor();

    Handoff(Flavour.User a, Flavour.User b, Flavour.User observer, Spec spec) {
        this.a = a;
        this.b = b;
        this.observer = observer;
        this.spec = spec;
    }

    JsonObject run(int rounds) throws Exception {
        JsonArray lock = new JsonArray();
        JsonArray blpop = new JsonArray();
        try {
            for (int i = 0; i < rounds; i++) {
                lock.add(lock());
                blpop.add(blpop());
            }
        } finally {
            waiter.shutdown();
        }
        JsonObject answer = new JsonObject();
        answer.add("lock_us", lock);
        answer.add("blpop_us", blpop);
        return answer;
    }

    private double lock() throws Exception {
        Hold first = spec.acquire(a.locks(), null, null);
        Hold[] second = new Hold[1];
        Future<Long> granted = after(() -> second[0] = spec.acquire(b.locks(), null, null));
        long start = System.nanoTime();
        first.release();
        double us = (granted.get() - start) / 1e3;
        second[0].release();
        return us;
    }

    private double blpop() throws Exception {
        String list = "handoff-" + UUID.randomUUID();
        Future<Long> popped = after(() -> {
            b.pop(list);
            return null;
        });
        long start = System.nanoTime();
        a.push(list, "x");
        return (popped.get() - start) / 1e3;
    }

    /** Starts a call, and returns when the server has blocked it; the result is the time at which the call returns. */
    private Future<Long> after(Callable<?> blocking) {
        Future<Long> end = waiter.submit(() -> {
            blocking.call();
            return System.nanoTime();
        });
        while (observer.blocked() == 0 && !end.isDone()) {
            Thread.onSpinWait();
        }
        return end;
    }
}
