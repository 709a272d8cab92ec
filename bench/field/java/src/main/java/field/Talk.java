package field;

import java.io.IOException;
import java.util.Locale;
import java.util.StringJoiner;

/** JSON lines out, and lines in, which say to go on. */
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

    /** Ends the program: a contestant that fails is no figure. */
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
