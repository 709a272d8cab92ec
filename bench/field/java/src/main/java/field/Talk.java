package field;

import java.io.IOException;
import java.util.Locale;
import java.util.StringJoiner;

/** Prints JSON lines, and reads lines, after each of which the program continues. */
final class Talk {
    private Talk() {
    }

    /** The fields as a format, without braces. */
    static void say(String at, String fields, Object... values) {
        String more = fields.isEmpty() ? "" : "," + String.format(Locale.ROOT, fields, values);
        System.out.println("{\"at\":\"" + at + "\"" + more + "}");
        System.out.flush();
    }

    static void awaitLine() throws IOException {
        int read;
        do {
            read = System.in.read();
        } while (read != '\n' && read != -1);
    }

    /** Ends the program: a competitor that fails has no figures. */
    static void fail(Throwable error) {
        error.printStackTrace();
        say("failed", "\"why\":\"%s\"", String.valueOf(error).replaceAll("[\"\\\\\\p{Cntrl}]", " "));
        Runtime.getRuntime().halt(1);
    }

    static String micros(Iterable<Long> nanos) {
        StringJoiner text = new StringJoiner(",", "[", "]");
        nanos.forEach(ns -> text.add(ns / 1000 + "." + ns / 100 % 10));
        return text.toString();
    }

    static String counts(Iterable<Integer> numbers) {
        StringJoiner text = new StringJoiner(",", "[", "]");
        numbers.forEach(number -> text.add(Integer.toString(number)));
        return text.toString();
    }
}
