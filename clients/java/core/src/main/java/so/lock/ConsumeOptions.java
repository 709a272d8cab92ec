package so.lock;

import java.time.Duration;

/** How {@link DelayedQueue#consume} works. Immutable: each method returns a changed copy. */
public final class ConsumeOptions {
    /** A timeout of 60 seconds, 5 tries, a pause of 1 second after the first failure. */
    public static final ConsumeOptions DEFAULT = new ConsumeOptions(60_000, 5, 1_000);

    final long timeoutMs;
    final int maxTries;
    final long backoffMs;

    private ConsumeOptions(long timeoutMs, int maxTries, long backoffMs) {
        this.timeoutMs = timeoutMs;
        this.maxTries = maxTries;
        this.backoffMs = backoffMs;
    }

    /** How long a job may take; then it is given to another consumer, because this one may have died. */
    public ConsumeOptions withTimeout(Duration time) {
        return new ConsumeOptions(LockOptions.checkTime("timeout", time), maxTries, backoffMs);
    }

    /** How often a job is tried, 1 at least, before it is put aside into the list of failed ones. */
    public ConsumeOptions withMaxTries(int tries) {
        if (tries < 1) {
            throw new IllegalArgumentException("maxTries must be at least 1, not " + tries);
        }
        return new ConsumeOptions(timeoutMs, tries, backoffMs);
    }

    /** The pause after the first failure of a job, which doubles with each further one. */
    public ConsumeOptions withBackoff(Duration time) {
        return new ConsumeOptions(timeoutMs, maxTries, LockOptions.checkTime("backoff", time));
    }

    /** The pause after a failure, when a job had failed that often before. */
    long backoffMs(int failures) {
        return (long) Math.min(backoffMs * Math.pow(2, failures), 1L << 52); // the server's limit is 2^53
    }

    @Override
    public String toString() {
        return "ConsumeOptions[timeout " + Texts.seconds(timeoutMs) + " s, " + maxTries + " tries, backoff "
                + Texts.seconds(backoffMs) + " s]";
    }
}
