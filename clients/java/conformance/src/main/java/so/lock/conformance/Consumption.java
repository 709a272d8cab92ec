package so.lock.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import so.lock.ConsumeOptions;
import so.lock.DelayedQueue;

/** One consumer of a delayed queue. */
final class Consumption {
    private final JsonObject request;
    private final Consumer<JsonObject> events;
    private final CountDownLatch left;
    private int handled;

    private Consumption(JsonObject request, Consumer<JsonObject> events, CountDownLatch left) {
        this.request = request;
        this.events = events;
        this.left = left;
    }

    /** Consumes until it is interrupted, or has handled as many jobs as requested. */
    static JsonObject run(DelayedQueue queue, JsonObject request, Consumer<JsonObject> events, CountDownLatch left)
            throws InterruptedException {
        Consumption consumption = new Consumption(request, events, left);
        ConsumeOptions options = ConsumeOptions.DEFAULT;
        options = given(request, "timeout_ms") ? options.withTimeout(time(request, "timeout_ms")) : options;
        options = given(request, "max_tries") ? options.withMaxTries(request.get("max_tries").getAsInt()) : options;
        options = given(request, "backoff_ms") ? options.withBackoff(time(request, "backoff_ms")) : options;
        try {
            queue.consume(consumption::handle, options);
        } catch (InterruptedException e) {
            if (!consumption.isDone()) {
                throw e;
            }
        }
        return new JsonObject();
    }

    private void handle(DelayedQueue.Job job) {
        JsonObject event = Requests.field("event", "job");
        event.add("id", request.get("id"));
        event.addProperty("value", job.value());
        event.addProperty("tries", job.tries());
        events.accept(event);
        boolean interrupted = contains("hold", job.value()) && awaitLeave();
        handled++;
        if (interrupted || isDone()) {
            Thread.currentThread().interrupt(); // which ends the consumer when this job is settled
        }
        if (contains("fail", job.value())) {
            throw new IllegalStateException("the handler fails");
        }
    }

    /** Whether the thread was interrupted meanwhile: the handler runs to its end nevertheless. */
    private boolean awaitLeave() {
        boolean interrupted = false;
        while (true) {
            try {
                left.await();
                return interrupted;
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
    }

    private boolean isDone() {
        return given(request, "jobs") && handled >= request.get("jobs").getAsInt();
    }

    private boolean contains(String name, String value) {
        JsonArray values = given(request, name) ? request.getAsJsonArray(name) : new JsonArray();
        return values.contains(new JsonPrimitive(value));
    }

    private static Duration time(JsonObject request, String name) {
        return Duration.ofMillis(request.get(name).getAsLong());
    }

    private static boolean given(JsonObject request, String name) {
        JsonElement value = request.get(name);
        return value != null && !value.isJsonNull();
    }
}
