package so.lock.spring.boot;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/** What tests wait for. */
final class Conditions {
    private Conditions() {}

    /** Waits until the condition is true, for 3 minutes at most: applications start slowly on a busy machine. */
    static void await(BooleanSupplier condition) {
        long start = System.nanoTime();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() - start < TimeUnit.MINUTES.toNanos(3), "in 3 minutes");
            LockSupport.parkNanos(5_000_000);
        }
    }
}
