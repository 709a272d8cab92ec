package so.lock.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import so.lock.Hold;
import so.lock.Locks;

/** Many acquisitions at once. */
final class Work {
    private Work() {}

    /** Workers that increment a counter, which only the lock protects. */
    static JsonObject count(Flavour.User user, Spec spec, String counter, int workers, int times) throws Exception {
        AtomicInteger done = new AtomicInteger();
        ExecutorService threads = Executors.newFixedThreadPool(workers);
        try {
            List<Future<?>> futures = new ArrayList<>();
            for (int i = 0; i < workers; i++) {
                futures.add(threads.submit(() -> {
                    increment(user, spec, counter, times, done);
                    return null;
                }));
            }
            for (Future<?> future : futures) {
                future.get();
            }
        } finally {
            threads.shutdown();
        }
        return Requests.field("done", done.get());
    }

    private static void increment(Flavour.User user, Spec spec, String counter, int times, AtomicInteger done)
            throws InterruptedException {
        Spec.Pair lock = spec.pair(user.locks());
        for (int i = 0; i < times; i++) {
            lock.take().run();
            try {
                String value = user.get(counter);
                if (!spec.onlyReads()) {
                    user.set(counter, Long.toString(value == null ? 1 : Long.parseLong(value) + 1));
                }
                done.incrementAndGet();
            } finally {
                lock.give().run();
            }
        }
    }

    /** Tasks that start at once, each with a lock of its own unless {@code own} is false. */
    static JsonObject crowd(Locks locks, JsonObject request, Function<String, Locks> named) throws Exception {
        int tasks = request.get("tasks").getAsInt();
        boolean own = !request.has("own") || request.get("own").isJsonNull() || request.get("own").getAsBoolean();
        ExecutorService threads = Executors.newFixedThreadPool(tasks);
        try {
            List<Future<?>> futures = new ArrayList<>();
            for (int i = 0; i < tasks; i++) {
                JsonObject lock = request.getAsJsonObject("lock").deepCopy();
                if (own) {
                    JsonArray keys = new JsonArray();
                    for (JsonElement key : lock.getAsJsonArray("keys")) {
                        keys.add(key.getAsString() + ":" + i);
                    }
                    lock.add("keys", keys);
                }
                futures.add(threads.submit(() -> {
                    Hold hold = new Spec(lock, named).acquire(locks, null, null);
                    Thread.sleep(request.get("hold_ms").getAsLong());
                    hold.release();
                    return null;
                }));
            }
            for (Future<?> future : futures) {
                future.get();
            }
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        } finally {
            threads.shutdown();
        }
        return Requests.field("done", tasks);
    }

    /** Acquisitions that are given up while another client acquires and releases the lock all the time. */
    static JsonObject storm(Locks locks, Spec spec, int times, String kind, long seed) throws InterruptedException {
        Random random = new Random(seed);
        int acquired = 0;
        for (int i = 0; i < times; i++) {
            acquired += kind.equals("cancel") ? cancelled(locks, spec, random) : timedOut(locks, spec, random);
        }
        JsonObject answer = Requests.field("acquired", acquired);
        answer.addProperty("given_up", times - acquired);
        return answer;
    }

    /** 1 if it was acquired nevertheless. */
    private static int cancelled(Locks locks, Spec spec, Random random) throws InterruptedException {
        AtomicInteger acquired = new AtomicInteger();
        Thread thread = new Thread(() -> acquired.set(takeAndRelease(locks, spec, null)));
        thread.start();
        LockSupport.parkNanos(random.nextInt(3_000_001));
        thread.interrupt();
        thread.join();
        return acquired.get();
    }

    private static int timedOut(Locks locks, Spec spec, Random random) {
        return takeAndRelease(locks, spec, 1L + random.nextInt(3));
    }

    private static int takeAndRelease(Locks locks, Spec spec, Long waitMs) {
        try {
            spec.acquire(locks, waitMs, null).release();
            return 1;
        } catch (InterruptedException | TimeoutException e) {
            return 0;
        }
    }
}
