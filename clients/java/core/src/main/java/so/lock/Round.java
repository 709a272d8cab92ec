package so.lock;

import static java.util.concurrent.TimeUnit.NANOSECONDS;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import so.lock.internal.ServerException;

/** The answers of all servers of a RedLock to one command; null: not yet. */
final class Round {
    /** Is called when an answer has come. */
    interface Listener {
        void answered(Round round, int number, Share.Answer answer);
    }

    /** When it was sent, by nanoTime. */
    final long began = System.nanoTime();
    /** Whether it had a majority in time. */
    boolean successful;
    private final AtomicReferenceArray<Share.Answer> answers;

    Round(int servers) {
        answers = new AtomicReferenceArray<>(servers);
    }

    /** Waits for this answer in the background. */
    void expect(int number, CompletableFuture<Share.Answer> answer, Listener listener) {
        answer.thenAccept(found -> {
            synchronized (this) { // who waits for the answer finds what the listener has made of it
                answers.set(number, found);
                listener.answered(this, number, found);
                notifyAll();
            }
        });
    }

    /** Waits until the condition is true or all have answered. */
    synchronized void awaitInterruptibly(BooleanSupplier done, long until) throws InterruptedException {
        while (!done.getAsBoolean() && count(answer -> true) < answers.length()) {
            long left = NANOSECONDS.toMillis(until - System.nanoTime() + 999_999);
            if (left <= 0) {
                break;
            }
            wait(left);
        }
    }

    /** The same; an interrupt does not end it. */
    void await(BooleanSupplier done, long until) {
        boolean interrupted = false;
        while (true) {
            try {
                awaitInterruptibly(done, until);
                break;
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** How many answers have come for which this is true. */
    long count(Predicate<Share.Answer> which) {
        return numbers(which).count();
    }

    private IntStream numbers(Predicate<Share.Answer> which) {
        return IntStream.range(0, answers.length()).filter(i -> answers.get(i) != null && which.test(answers.get(i)));
    }

    /** The answer of a server; null: not yet. */
    Share.Answer answer(int number) {
        return answers.get(number);
    }

    /** Whether a majority has replied. */
    boolean hasMajority() {
        return count(Share.Answer::isReply) > answers.length() / 2;
    }

    /** Whether a majority has granted it, or a majority has replied and the others cannot make one any more. */
    boolean isDecided() {
        int half = answers.length() / 2;
        long granted = count(Share.Answer::isGranted);
        long missing = answers.length() - count(answer -> true);
        return granted > half || hasMajority() && granted + missing <= half;
    }

    /** The servers where another owner holds the lock. */
    IntStream heldByOthers() {
        return numbers(answer -> answer.failure() == null && !answer.isGranted());
    }

    /** Throws why no majority can be reached: a server that may not be one, or errors of too many. */
    void throwRefusal(LockName named, Servers servers) {
        numbers(answer -> answer.failure() instanceof IllegalArgumentException).findFirst().ifPresent(number -> {
            throw (IllegalArgumentException) answers.get(number).failure();
        });
        if (answers.length() - count(Share.Answer::isRefused) <= answers.length() / 2) {
            int number = numbers(Share.Answer::isRefused).findFirst().orElseThrow();
            throw LockException.of(named, (ServerException) answers.get(number).failure(), servers.address(number));
        }
    }

    /** The library's exception for a round without a majority. */
    RuntimeException failure(Servers servers) {
        return numbers(answer -> answer.failure() instanceof RuntimeException)
                .mapToObj(i -> (RuntimeException) answers.get(i).failure())
                .findFirst()
                .orElseGet(() -> servers.all().get(0).connections.failure("no reply of a majority in time").original());
    }
}
