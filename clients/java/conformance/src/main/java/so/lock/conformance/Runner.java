package so.lock.conformance;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeoutException;
import so.lock.LockFailure;
import so.lock.LockException;
import so.lock.NotHeldException;
import so.lock.internal.LinkException;

/** Implements the protocol of clients/conformance on standard input and output: {@code runner FLAVOUR}. */
public final class Runner {
    private final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private final Requests requests;

    private Runner(String flavour) {
        requests = new Requests(Flavour.of(flavour), this::send);
    }

    public static void main(String[] arguments) throws IOException {
        if (arguments.length != 1) {
            System.err.println("usage: runner FLAVOUR");
            System.exit(2);
        }
        new Runner(arguments[0]).run();
        System.exit(0);
    }

    private void run() throws IOException {
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonObject request = JsonParser.parseString(line).getAsJsonObject();
            if (request.get("do").getAsString().equals("quit")) {
                requests.close();
                answer(request, new JsonObject());
                return;
            }
            threads.execute(() -> serve(request));
        }
        requests.close();
    }

    private void serve(JsonObject request) {
        try {
            answer(request, requests.serve(request));
        } catch (Throwable e) {
            JsonObject error = new JsonObject();
            error.add("id", request.get("id"));
            String code = code(e);
            error.addProperty("error", code);
            error.addProperty("text", code.equals("connection") ? LinkException.words(e) : e.toString());
            send(error);
            if (code.equals("other")) {
                e.printStackTrace();
            }
        }
    }

    private void answer(JsonObject request, JsonObject answer) {
        JsonElement id = request.get("id");
        answer.add("id", id);
        answer.addProperty("ok", true);
        send(answer);
    }

    private synchronized void send(JsonObject line) {
        out.println(line);
    }

    private static String code(Throwable e) {
        if (e instanceof TimeoutException) { // a NotAcquiredException, or tryLock was false
            return "not_acquired";
        } else if (e instanceof NotHeldException) {
            return "not_held";
        } else if (e instanceof LockException.Deadlock) {
            return "deadlock";
        } else if (e instanceof LockException.NoReplicas) {
            return "no_replicas";
        } else if (e instanceof LockException.Closed) {
            return "closed";
        } else if (e instanceof LockException.ModuleMissing) {
            return "module_missing";
        } else if (e instanceof IllegalArgumentException) {
            return "bad_option";
        } else if (e instanceof LockFailure) {
            return "refused";
        } else if (e instanceof InterruptedException) {
            return "cancelled";
        } else if (e instanceof Requests.BodyFailure) {
            return "body";
        }
        String library = e.getClass().getName();
        return library.startsWith("redis.clients.") || library.startsWith("io.lettuce.") ? "connection" : "other";
    }
}
