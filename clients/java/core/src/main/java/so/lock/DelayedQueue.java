package so.lock;

import java.time.Duration;
import java.util.List;
import java.util.Objects;

/**
 * Elements that the server pushes to a list when their delay has passed. Values are bytes; the methods for a String use
 * UTF-8. Any thread may use it. All but {@link #consume} are answered within 2 seconds, or fail with the library's
 * exception.
 */
public final class DelayedQueue {
    private static final String ANY_ID = "*";

    /** What a consumer has taken off the list. */
    public static final class Job {
        private final String binary;
        private final int tries;

        Job(String binary, int tries) {
            this.binary = binary;
            this.tries = tries;
        }

        /** The value as text, in UTF-8. */
        public String value() {
            return Texts.text(binary);
        }

        /** The value. */
        public byte[] bytes() {
            return Texts.bytes(binary);
        }

        /** How often it has been tried, this time included: 1 the first time. */
        public int tries() {
            return tries;
        }

        @Override
        public String toString() {
            return "Job[" + value() + ", try " + tries + "]";
        }
    }

    /** An element that is not due yet. */
    public static final class Element {
        private final String id;
        private final Duration left;
        private final String binary;

        private Element(List<?> words) {
            id = Texts.text((String) words.get(0));
            left = Duration.ofMillis((Long) words.get(1));
            binary = (String) words.get(2);
        }

        /** The id, for {@link DelayedQueue#cancel}. */
        public String id() {
            return id;
        }

        /** The time until it is due. */
        public Duration left() {
            return left;
        }

        /** The value as text, in UTF-8; null if another client has removed it from the server's keys. */
        public String value() {
            return binary == null ? null : Texts.text(binary);
        }

        /** The value; null as {@link #value}. */
        public byte[] bytes() {
            return binary == null ? null : Texts.bytes(binary);
        }

        @Override
        public String toString() {
            return "Element[" + id + " in " + left + ": " + value() + "]";
        }
    }

    /** Does the work for a job. */
    public interface Handler {
        /** Does the work; with an exception it has failed, and the job is tried again later. */
        void handle(Job job) throws Exception;
    }

    private final Locks locks;
    private final String list;

    DelayedQueue(Locks locks, String list) {
        this.locks = locks;
        this.list = Objects.requireNonNull(list, "list");
    }

    /**
     * Adds an element with an id of the server's. This is not sent again after a lost connection, because it may have
     * been executed.
     *
     * @return the id
     */
    public String push(String value, Duration delay) {
        return schedule(Texts.binary(value), delay, ANY_ID);
    }

    /** {@link #push(String, Duration)} for bytes. */
    public String push(byte[] value, Duration delay) {
        return schedule(Texts.binary(value), delay, ANY_ID);
    }

    /**
     * Adds an element, or gives the pending element of this id another value and time.
     *
     * @return the id
     */
    public String push(String value, Duration delay, String id) {
        return schedule(Texts.binary(value), delay, Texts.binary(id));
    }

    /** {@link #push(String, Duration, String)} for bytes. */
    public String push(byte[] value, Duration delay, String id) {
        return schedule(Texts.binary(value), delay, Texts.binary(id));
    }

    private String schedule(String value, Duration delay, String id) {
        if (delay.isNegative()) {
            throw new IllegalArgumentException("delay must not be negative, not " + Texts.seconds(Texts.ms(delay)));
        } else if (id.isEmpty()) {
            throw new IllegalArgumentException("id must not be empty");
        } else if (QueueConsumer.wasTried(value)) {
            throw new IllegalArgumentException("value must not begin as that of a job that was tried, lock-so:tries:");
        }
        List<String> words = List.of("DELAY.PUSH", Texts.binary(list), id, Long.toString(Texts.ms(delay)), value);
        return Texts.text((String) (id.equals(ANY_ID) ? query().sendOnce(words) : query().send(words)));
    }

    /**
     * Removes an element that is not due yet. This is not sent again after a lost connection, because its reply would
     * not show which of the two was executed.
     *
     * @return whether it was pending; false if it is in the list already, or was never pushed
     */
    public boolean cancel(String id) {
        return !query().sendOnce(List.of("DELAY.CANCEL", Texts.binary(list), Texts.binary(id))).equals(0L);
    }

    /** The first 10 elements that are not due yet, in the order of their times. */
    public List<Element> list() {
        return list(List.of());
    }

    /** The first elements that are not due yet, {@code count} at most. */
    public List<Element> list(int count) {
        if (count < 0) {
            throw new IllegalArgumentException("count must not be negative, not " + count);
        }
        return list(List.of("COUNT", Integer.toString(count)));
    }

    private List<Element> list(List<String> count) {
        Object reply = query().send(Request.words(List.of(List.of("DELAY.LIST", Texts.binary(list)), count)));
        return ((List<?>) reply).stream().map(element -> new Element((List<?>) element)).toList();
    }

    /** {@link #consume(Handler, ConsumeOptions)} with {@link ConsumeOptions#DEFAULT}. */
    public void consume(Handler handler) throws InterruptedException {
        consume(handler, ConsumeOptions.DEFAULT);
    }

    /**
     * Takes elements off the list, whoever has pushed them, and runs the handler for one after the other on this
     * thread, until the thread is interrupted or the locks are closed. A job whose handler fails, or whose consumer
     * dies, is delivered again, so a handler must be able to do its work twice. When the thread is interrupted, a
     * handler that ignores it runs to its end; one that throws InterruptedException gives its job back.
     *
     * @throws InterruptedException if interrupted, within some seconds; nothing else ends it regularly
     * @throws LockException if the key is not a list, or the user may not use a command; or {@link LockException.Closed}
     * @throws RuntimeException the library's, if there was never a connection
     */
    public void consume(Handler handler, ConsumeOptions options) throws InterruptedException {
        new QueueConsumer(locks, named(), list, handler, options).run();
    }

    private Query query() {
        return new Query(locks, named(), list, true);
    }

    private LockName named() {
        return LockName.of("delayed queue", List.of(list));
    }

    @Override
    public String toString() {
        return "DelayedQueue[" + list + "]";
    }
}
