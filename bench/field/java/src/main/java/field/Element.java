package field;

import java.time.Instant;
import java.util.Locale;

/** What is pushed: a letter, when it is due (unix ms), and padding up to 64 bytes. */
final class Element {
    private static final int BYTES = 64;

    private Element() {
    }

    static double nowMs() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1e3 + now.getNano() / 1e6;
    }

    static String make(char letter, double dueMs) {
        String head = String.format(Locale.ROOT, "%c %.3f ", letter, dueMs);
        return head + "x".repeat(BYTES - head.length());
    }

    static char letter(String element) {
        return element.charAt(0);
    }

    static double lateMs(String element, double nowMs) {
        return nowMs - Double.parseDouble(element.split(" ")[1]);
    }
}
