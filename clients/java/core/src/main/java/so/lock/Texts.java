package so.lock;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;
import so.lock.internal.LinkException;

/** Parts of the texts of exceptions and of the log, which are the same in all languages. */
final class Texts {
    static final String CLOSED = "these Locks are closed";
    static final String RELEASED = "it was released before";

    private static final long LONGEST_S = 1_000_000L * 366 * 86_400;

    private Texts() {}

    /** Milliseconds as seconds, without trailing zeros. */
    static String seconds(long ms) {
        return ms == 0 ? "0" : BigDecimal.valueOf(ms, 3).stripTrailingZeros().toPlainString();
    }

    /** A short time in milliseconds, as {@code 0.5 ms}. */
    static String milliseconds(Duration time) {
        return BigDecimal.valueOf(time.toNanos(), 6).stripTrailingZeros().toPlainString() + " ms";
    }

    /** In ms; not more than a million years. */
    static long ms(Duration time) {
        boolean fits = Math.abs(time.getSeconds()) <= LONGEST_S;
        return fits ? time.toMillis() : Long.signum(time.getSeconds()) * LONGEST_S * 1_000;
    }

    /** Bytes as a String of characters up to 255, so that no byte is lost. */
    static String binary(byte[] bytes) {
        return new String(bytes, StandardCharsets.ISO_8859_1);
    }

    /** The same for the bytes of a text in UTF-8. */
    static String binary(String text) {
        return binary(text.getBytes(StandardCharsets.UTF_8));
    }

    /** The bytes of a {@link #binary} String. */
    static byte[] bytes(String binary) {
        return binary.getBytes(StandardCharsets.ISO_8859_1);
    }

    /** The bytes of a {@link #binary} String as text in UTF-8. */
    static String text(String binary) {
        return new String(bytes(binary), StandardCharsets.UTF_8);
    }

    static String quoted(List<String> keys) {
        return keys.stream().map(key -> '"' + key + '"').collect(Collectors.joining(", "));
    }

    /** Names the holders; one of this process may be the thread that waits. */
    static String heldBy(List<String> owners) {
        List<String> holders = owners.stream()
                .limit(2)
                .map(owner -> owner.startsWith(Locks.PROCESS) ? owner + " (this process)" : owner)
                .toList();
        int others = owners.size() - 2;
        return switch (owners.size()) {
            case 0 -> "";
            case 1 -> ": held by " + holders.get(0);
            case 2 -> ": held by " + holders.get(0) + " and " + holders.get(1);
            default -> ": held by " + holders.get(0) + ", " + holders.get(1) + " and " + others
                    + (others == 1 ? " other" : " others");
        };
    }

    /** A library's words about a connection, or the server's error, with the server's address. */
    static String of(Throwable failure, String where) {
        String text = failure instanceof LockException refused ? refused.reason : LinkException.words(failure);
        return text.contains(where) ? text : text + " (" + where + ")";
    }
}
