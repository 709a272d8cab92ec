package so.lock;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/** What tests wait for. */
final class Conditions {
    private Conditions() {
    }

    /** Waits until the condition is true, for 20 s at most. */
    static void await(BooleanSupplier condition) {
        long start = System.nanoTime();
        while (!condition.getAsBoolean()) {
            assertTrue(ms(start) < 20_000, "in 20 s");
            LockSupport.parkNanos(1_000_000);
        }
    }

    /** How many milliseconds have passed since {@code start}, a value of {@link System#nanoTime()}. */
    static long ms(long start) {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
    }
}
