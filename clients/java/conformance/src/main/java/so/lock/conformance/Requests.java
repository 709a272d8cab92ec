package so.lock.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import so.lock.DelayedQueue;
import so.lock.DistributedCountDownLatch;
import so.lock.Hold;
import so.lock.Locks;

/** Executes the requests of the protocol, each on a thread of its own. */
final class Requests implements AutoCloseable {
    /** The exception of a body with {@code raise}. */
    static final class BodyFailure extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    private final Flavour flavour;
    private final Consumer<JsonObject> events;
    private final Map<String, Flavour.User> users = new ConcurrentHashMap<>();
    private final Map<String, Hold> holds = new ConcurrentHashMap<>();
    private final Map<String, Thread> acquiring = new ConcurrentHashMap<>();
    private final Map<String, CountDownLatch> bodies = new ConcurrentHashMap<>();

    Requests(Flavour flavour, Consumer<JsonObject> events) {
        this.flavour = flavour;
        this.events = events;
    }

    /** The fields of the answer, except id and ok. */
    JsonObject serve(JsonObject request) throws Exception {
        return switch (request.get("do").getAsString()) {
            case "connect" -> connect(request);
            case "acquire" -> acquire(request);
            case "release" -> release(request);
            case "close" -> closeLocks(request);
            case "abandon" -> abandon(request);
            case "crowd" -> Work.crowd(user(request).locks(), request, this::locks);
            case "short_lived" -> shortLived(request);
            case "cancel" -> cancel(request);
            case "lost" -> field("lost", held(request).isLost());
            case "within" -> within(request);
            case "leave" -> leave(request);
            case "count" -> Work.count(user(request), spec(request), text(request, "counter", ""),
                    request.get("workers").getAsInt(), request.get("times").getAsInt());
            case "storm" -> Work.storm(user(request).locks(), spec(request), request.get("times").getAsInt(),
                    text(request, "kind", "cancel"), request.get("seed").getAsLong());
            case "handoff" -> handoff(request);
            case "locked" -> field("locked", spec(request).isLocked(user(request).locks()));
            case "info" -> Answers.info(spec(request).info(user(request).locks()));
            case "force" -> field("forced", spec(request).force(user(request).locks()));
            case "renew" -> renew(request);
            case "guard" -> guard(request);
            case "reenter" -> reenter(request);
            case "latch_set" -> setLatch(request);
            case "latch_down" -> field("left", latch(request).countDown(request.get("by").getAsLong()));
            case "latch_count" -> field("count", latch(request).getCount());
            case "latch_wait" -> field("open", cancellable(request, () -> await(latch(request), wait(request))));
            case "delay_push" -> push(request);
            case "delay_cancel" -> field("cancelled", queue(request).cancel(text(request, "item", "")));
            case "delay_list" -> Answers.items(queue(request).list());
            case "consume" -> cancellable(request, () -> Consumption.run(queue(request), request, events, latchOf(request)));
            case "ping" -> ping(request);
            default -> throw new IllegalArgumentException("no such request: " + request);
        };
    }

    @Override
    public void close() {
        users.values().forEach(Flavour.User::close);
    }

    private JsonObject connect(JsonObject request) {
        String name = text(request, "as", "main");
        JsonObject to = request.getAsJsonObject("to");
        Flavour.User user = flavour.connect(to, number(request, "pool", 0));
        user.locks().setMaxBlock(Duration.ofMillis(number(request, "max_block_ms", 30_000)));
        user.locks()
                .setConnectTimeout(Duration.ofMillis(number(request, "connect_timeout_ms", 5_000)));
        users.put(name, user);
        return new JsonObject();
    }

    private JsonObject acquire(JsonObject request) throws InterruptedException, TimeoutException {
        String name = text(request, "as", "");
        Locks locks = user(request).locks();
        Spec spec = spec(request);
        Hold hold = cancellable(request, () -> {
            AtomicReference<Hold> same = new AtomicReference<>(); // as in a program: the listener refers to the hold
            Hold acquired = spec.acquire(locks, wait(request), spec.watched() ? lost -> {
                same.set(lost);
                reportLoss(name, spec.failing());
            } : null);
            same.set(acquired);
            holds.put(name, acquired);
            return acquired;
        });
        JsonObject answer = field("owner", hold.owner());
        if (hold.holds().size() > 1) {
            JsonArray owners = new JsonArray();
            hold.holds().forEach(part -> owners.add(part.owner()));
            answer.add("owners", owners);
        }
        answer.addProperty("token", hold.token().isPresent() ? hold.token().getAsLong() : null);
        return answer;
    }

    private interface Waiting<T> {
        T run() throws InterruptedException, TimeoutException;
    }

    /** Waits so that {@code cancel} can end it. */
    private <T> T cancellable(JsonObject request, Waiting<T> waiting) throws InterruptedException, TimeoutException {
        String name = text(request, "as", "");
        acquiring.put(name, Thread.currentThread());
        try {
            return waiting.run();
        } finally {
            synchronized (acquiring) {
                acquiring.remove(name);
                Thread.interrupted(); // of a cancel that came too late
            }
        }
    }

    private void reportLoss(String name, boolean failing) {
        JsonObject event = new JsonObject();
        event.addProperty("event", "lost");
        event.addProperty("as", name);
        events.accept(event);
        if (failing) {
            throw new IllegalStateException("the callback fails");
        }
    }

    private JsonObject release(JsonObject request) {
        Hold hold = held(request);
        hold.release(number(request, "permits", Math.max(1, hold.permits())));
        return new JsonObject();
    }

    private JsonObject closeLocks(JsonObject request) {
        JsonElement limit = request.get("timeout_ms");
        if (limit == null || limit.isJsonNull()) {
            user(request).locks().close();
        } else {
            user(request).locks().close(Duration.ofMillis(limit.getAsLong()));
        }
        return new JsonObject();
    }

    private JsonObject abandon(JsonObject request) {
        holds.remove(text(request, "as", ""));
        System.gc();
        return new JsonObject();
    }

    private JsonObject shortLived(JsonObject request) throws InterruptedException {
        for (int i = 0; i < request.get("times").getAsInt(); i++) {
            Locks locks = user(request).fresh();
            Spec.Pair lock = spec(request).pair(locks);
            lock.take().run();
            lock.give().run();
            if (yes(request, "close")) {
                locks.close();
            }
        }
        System.gc();
        return new JsonObject();
    }

    private JsonObject cancel(JsonObject request) {
        synchronized (acquiring) {
            Thread thread = acquiring.get(text(request, "as", ""));
            if (thread != null) {
                thread.interrupt();
            }
        }
        return new JsonObject();
    }

    private JsonObject within(JsonObject request) throws InterruptedException, TimeoutException {
        CountDownLatch left = latchOf(request);
        if (!yes(request, "until")) {
            left.countDown();
        }
        CountDownLatch stopped = new CountDownLatch(1);
        try (Hold hold = spec(request).acquire(user(request).locks(), wait(request),
                yes(request, "stop") ? lost -> stopped.countDown() : null)) {
            reportInside(request, hold.owner());
            if (yes(request, "stop")) {
                stopped.await();
            } else {
                left.await();
            }
            if (yes(request, "raise")) {
                throw new BodyFailure();
            }
        }
        return new JsonObject();
    }

    private void reportInside(JsonObject request, String owner) {
        JsonObject event = new JsonObject();
        event.addProperty("event", "inside");
        event.add("id", request.get("id"));
        event.addProperty("owner", owner);
        events.accept(event);
    }

    private JsonObject renew(JsonObject request) {
        int lease = number(request, "lease_ms", Integer.MIN_VALUE);
        if (lease == Integer.MIN_VALUE) {
            held(request).renew();
        } else {
            held(request).renew(Duration.ofMillis(lease));
        }
        return new JsonObject();
    }

    private JsonObject guard(JsonObject request) {
        List<String> words = new ArrayList<>();
        request.getAsJsonArray("command").forEach(word -> words.add(word.getAsString()));
        return field("reply", held(request).guard(words.toArray(String[]::new)));
    }

    /** Acquires a lock in one thread, each time inside the one before. */
    private JsonObject reenter(JsonObject request) throws InterruptedException, TimeoutException {
        CountDownLatch left = latchOf(request);
        Deque<Spec.Entry> entries = new ArrayDeque<>();
        JsonObject answer = new JsonObject();
        answer.add("owners", new JsonArray());
        try {
            for (int i = 0; i < request.get("times").getAsInt(); i++) {
                entries.push(spec(request).enter(user(request).locks(), wait(request)));
                answer.getAsJsonArray("owners").add(entries.peek().owner());
            }
            reportInside(request, entries.peek().owner());
            left.await();
        } finally {
            entries.forEach(entry -> entry.leaving().run());
        }
        return answer;
    }

    private JsonObject setLatch(JsonObject request) {
        long count = request.get("count").getAsLong();
        int lease = number(request, "lease_ms", Integer.MIN_VALUE);
        if (lease == Integer.MIN_VALUE) {
            latch(request).set(count);
        } else {
            latch(request).set(count, Duration.ofMillis(lease));
        }
        return new JsonObject();
    }

    private static boolean await(DistributedCountDownLatch latch, Long waitMs) throws InterruptedException {
        if (waitMs != null) {
            return latch.await(Duration.ofMillis(waitMs));
        }
        latch.await();
        return true;
    }

    private DistributedCountDownLatch latch(JsonObject request) {
        return user(request).locks().countDownLatch(text(request, "key", ""));
    }

    private JsonObject push(JsonObject request) {
        String value = text(request, "value", "");
        Duration delay = Duration.ofMillis(request.get("delay_ms").getAsLong());
        String item = text(request, "item", null);
        DelayedQueue queue = queue(request);
        return field("item", item == null ? queue.push(value, delay) : queue.push(value, delay, item));
    }

    private DelayedQueue queue(JsonObject request) {
        return user(request).locks().delayedQueue(text(request, "queue", ""));
    }

    /** What {@code leave} opens for this request. */
    private CountDownLatch latchOf(JsonObject request) {
        CountDownLatch left = new CountDownLatch(1);
        bodies.put(request.get("id").toString(), left);
        return left;
    }

    private JsonObject leave(JsonObject request) {
        bodies.get(request.get("of").toString()).countDown();
        return new JsonObject();
    }

    private JsonObject handoff(JsonObject request) throws Exception {
        JsonObject to = request.getAsJsonObject("to");
        try (Flavour.User a = flavour.connect(to, 0);
                Flavour.User b = flavour.connect(to, 0);
                Flavour.User observer = flavour.connect(to, 0)) {
            return new Handoff(a, b, observer, spec(request)).run(request.get("rounds").getAsInt());
        }
    }

    private JsonObject ping(JsonObject request) {
        user(request).ping();
        return field("pong", true);
    }

    private Locks locks(String name) {
        return users.get(name).locks();
    }

    private Flavour.User user(JsonObject request) {
        return users.get(text(request, "on", "main"));
    }

    private Hold held(JsonObject request) {
        return holds.get(text(request, "as", ""));
    }

    private Spec spec(JsonObject request) {
        return new Spec(request.getAsJsonObject("lock"), this::locks);
    }

    /** Null: no limit. */
    private static Long wait(JsonObject request) {
        JsonElement wait = request.get("wait_ms");
        return wait == null || wait.isJsonNull() ? null : wait.getAsLong();
    }

    private static boolean yes(JsonObject request, String name) {
        JsonElement value = request.get(name);
        return value != null && !value.isJsonNull() && value.getAsBoolean();
    }

    private static int number(JsonObject request, String name, int otherwise) {
        JsonElement value = request.get(name);
        return value == null || value.isJsonNull() ? otherwise : value.getAsInt();
    }

    private static String text(JsonObject request, String name, String otherwise) {
        JsonElement value = request.get(name);
        return value == null || value.isJsonNull() ? otherwise : value.getAsString();
    }

    static JsonObject field(String name, Object value) {
        JsonObject answer = new JsonObject();
        if (value instanceof Boolean yes) {
            answer.addProperty(name, yes);
        } else if (value instanceof Number number) {
            answer.addProperty(name, number);
        } else {
            answer.addProperty(name, (String) value);
        }
        return answer;
    }
}
