package so.lock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import java.lang.System.Logger.Level;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/**
 * Takes the elements of a list, and runs a handler for each, so that none is lost if a consumer dies: an element is
 * pending again, as its own timeout, before it is removed from the list of the taken ones. All packages use the same
 * keys and the same format, so that a consumer of one language continues what one of another has left.
 */
final class QueueConsumer implements Locks.Work {
    /** In front of a value: how often it was tried. */
    private static final Pattern TRIED = Pattern.compile("lock-so:([0-9]+):");
    private static final Pattern TAGGED = Pattern.compile("[^{]*\\{[^}]+\\}");
    private static final long LOOK = SECONDS.toNanos(1);
    private static final long LONGEST_BLOCK_MS = 1_000;
    private static final int MOST_TRIES = 1_000_000_000;
    private static final List<String> FATAL = List.of("WRONGTYPE", "NOPERM", "ERR");
    private static final SecureRandom RANDOM = new SecureRandom();

    /**
     * An element of the list.
     *
     * @param whole as it is in the list
     * @param tries how many tries have begun
     */
    private record Element(String whole, int tries, String value) {
        static Element of(String whole) {
            Matcher found = TRIED.matcher(whole);
            if (!found.lookingAt()) {
                return new Element(whole, 0, whole);
            }
            String digits = found.group(1);
            int tries = digits.length() < 10 ? Integer.parseInt(digits) : MOST_TRIES;
            return new Element(whole, tries, whole.substring(found.end()));
        }

        String after(int number) {
            return "lock-so:" + number + ":" + value;
        }
    }

    /** The reply to a command that was sent last at that time; the one before may have been executed too. */
    private record Reply(Object value, boolean doubtful, long sent) {
        boolean isNothing() {
            return value.equals(0L) && !doubtful;
        }
    }

    /** An element that is pending as its own timeout, which ends at that time by nanoTime. */
    private record Claim(Element element, String id, long end) {
        boolean isOver() {
            return System.nanoTime() - end >= 0;
        }
    }

    private final Locks locks;
    private final LockName named;
    private final String key;
    private final String list; // this and all further words are binary
    private final String taken;
    private final String failed;
    private final DelayedQueue.Handler handler;
    private final ConsumeOptions options;
    private List<String> seen = new ArrayList<>(); // in the list of the taken ones, when it was looked at last
    private long looked = System.nanoTime() - LOOK;
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private volatile boolean stopping;

    QueueConsumer(Locks locks, LockName named, String list, DelayedQueue.Handler handler, ConsumeOptions options) {
        this.locks = locks;
        this.named = named;
        this.key = list;
        this.list = Texts.binary(list);
        String tag = TAGGED.matcher(list).lookingAt() ? this.list : "{" + this.list + "}";
        this.taken = tag + ":taken";
        this.failed = tag + ":failed";
        this.handler = handler;
        this.options = options;
    }

    /** Whether a value looks like one that was tried. */
    static boolean wasTried(String binary) {
        return TRIED.matcher(binary).lookingAt();
    }

    /** Runs until the thread is interrupted, or there is an error that will not go away. */
    void run() throws InterruptedException {
        locks.running.add(this); // before the check, so that close() ends it
        try {
            consume();
        } finally {
            locks.running.remove(this);
            ended.complete(null);
        }
    }

    /** Ends it because the locks are closed: the job that it works on is settled, if that does not take too long. */
    @Override
    public CompletableFuture<Void> abandon() {
        stopping = true;
        return ended;
    }

    private void consume() throws InterruptedException {
        stopping |= locks.closed;
        while (!stopping && !Thread.interrupted()) {
            try {
                sweep();
                String whole = take();
                stopping |= Thread.interrupted();
                if (whole != null && stopping) {
                    putBack(Element.of(whole));
                } else if (whole != null) {
                    work(Element.of(whole));
                }
            } catch (ServerException e) {
                tolerate("refused", e);
                pause();
            } catch (LinkException e) {
                if (!stopping || locks.closed) {
                    throw locks.failure(named, e);
                }
            }
        }
        Thread.interrupted(); // set again, perhaps
        if (locks.closed) {
            throw new LockException.Closed(named);
        }
        throw new InterruptedException();
    }

    /** For the backoff, or until it is to end. */
    private void pause() {
        long end = Call.until(options.backoffMs);
        while (!stopping && !Thread.currentThread().isInterrupted() && System.nanoTime() - end < 0) {
            LockSupport.parkNanos(Math.min(end - System.nanoTime(), MILLISECONDS.toNanos(Call.LATER_MS)));
        }
    }

    private String take() throws LinkException, ServerException {
        long blockMs = Math.min(locks.maxBlockMs, LONGEST_BLOCK_MS);
        List<String> words = List.of("BLMOVE", list, taken, "LEFT", "RIGHT", Texts.seconds(blockMs));
        Call call = new Call(locks.connections, key, false, named, null, List.of()).binary();
        try {
            // it is not interrupted: it ends soon, and an element that it has moved must be known
            return (String) call.send(() -> new Call.Command(words, blockMs + Call.SHORT_MS, false), forever(), null);
        } catch (InterruptedException e) {
            stopping = true;
            return null;
        } finally {
            call.giveBack();
        }
    }

    /** Elements that are still there a second later were left behind by a consumer that has died. */
    private void sweep() throws LinkException, ServerException {
        if (System.nanoTime() - looked < LOOK) {
            return;
        }
        List<?> present = (List<?>) send(forever(), "LRANGE", taken, "0", "-1").value;
        looked = System.nanoTime();
        List<Element> left = new ArrayList<>();
        List<String> others = new ArrayList<>();
        for (Object one : present) {
            String whole = (String) one;
            if (seen.remove(whole)) {
                left.add(Element.of(whole));
            } else {
                others.add(whole);
            }
        }
        seen = others;
        for (Element element : left) {
            putBack(element);
        }
    }

    /** Gives back an element that was taken, and whose next try has not begun. */
    private void putBack(Element element) throws LinkException, ServerException {
        claim(element, 0, element.tries);
    }

    private void work(Element element) throws LinkException, ServerException {
        int tries = element.tries + 1;
        Claim claim = claim(element, options.timeoutMs, tries);
        if (claim == null) {
            return;
        } else if (tries > options.maxTries) {
            if (settle(claim, "RPUSH", failed, element.value) != null) {
                warn("a job was tried " + element.tries + " times, and is put aside in " + Texts.text(failed), null);
                settle(claim, "DELAY.CANCEL", list, claim.id);
            }
            return;
        }
        try {
            handler.handle(new DelayedQueue.Job(element.value, tries));
        } catch (InterruptedException e) {
            stopping = true;
            again(claim, 0, element.tries);
            return;
        } catch (Exception | Error e) {
            warn("a job has failed, try " + tries + " of " + options.maxTries, e);
            again(claim, options.backoffMs(element.tries), tries);
            return;
        }
        Reply reply = settle(claim, "DELAY.CANCEL", list, claim.id);
        if (reply != null && reply.isNothing()) {
            warn("a job took longer than its timeout, and will run again", null);
        }
    }

    /**
     * Makes an element pending, and then removes it from the list of the taken ones: if this consumer dies in between,
     * the element is delivered twice, but never lost. Null if another consumer has removed it.
     */
    private Claim claim(Element element, long delayMs, int tries) throws LinkException, ServerException {
        String id = String.format("claim-%016x", RANDOM.nextLong());
        Reply pushed = send(forever(), "DELAY.PUSH", list, id, Long.toString(delayMs), element.after(tries));
        if (!remove(element)) {
            send(forever(), "DELAY.CANCEL", list, id);
            return null;
        }
        return new Claim(element, id, pushed.sent + Math.min(MILLISECONDS.toNanos(delayMs), Call.NO_LIMIT));
    }

    /**
     * Removes a claimed element from the list of the taken ones; false if another consumer has removed it. It is sent
     * once: a second removal could be that of an equal element, which another consumer would then give up. Without a
     * reply it counts as removed, because a second delivery is better than none.
     */
    private boolean remove(Element element) throws LinkException, ServerException {
        Call call = call().once();
        try {
            return !send(call, forever(), "LREM", taken, "1", element.whole).isNothing();
        } catch (LinkException e) {
            if (!call.isDoubtful() || locks.closed) {
                throw e;
            }
            return true;
        }
    }

    /** Replaces the timeout of a job by the time of its next try, unless the timeout has delivered it already. */
    private void again(Claim claim, long delayMs, int tries) throws LinkException, ServerException {
        if (!claim.isOver()) {
            settle(claim, "DELAY.PUSH", list, claim.id, Long.toString(delayMs), claim.element.after(tries));
        }
    }

    /** Sends the last command for a job. Null if that was not possible: then its timeout delivers it again. */
    private Reply settle(Claim claim, String... words) throws LinkException {
        try {
            return send(claim.end, words);
        } catch (ServerException e) {
            tolerate("the end of a job is not recorded, and it will run again", e);
        } catch (LinkException e) {
            if (locks.closed) {
                throw e;
            }
            warn("the end of a job is not recorded, and it will run again", e);
        }
        return null;
    }

    /** Warns of an error that may go away, and throws any other one. */
    private void tolerate(String what, ServerException e) {
        if (FATAL.contains(e.code()) && !e.isTransient()) {
            throw locks.refusal(named, e, key);
        }
        warn(what, e);
    }

    private void warn(String what, Throwable e) {
        Locks.LOG.log(Level.WARNING, named + ": " + what, e);
    }

    private static long forever() {
        return System.nanoTime() + Call.NO_LIMIT;
    }

    /** Sends a command, and repeats it while nanoTime is before {@code until}; after an interrupt for 2 seconds more. */
    private Reply send(long until, String... words) throws LinkException, ServerException {
        return send(call(), until, words);
    }

    private Call call() {
        return new Call(locks.connections, key, true, named, null, List.of()).binary();
    }

    private Reply send(Call call, long until, String... words) throws LinkException, ServerException {
        long[] sent = new long[1];
        Supplier<Call.Command> next = () -> {
            sent[0] = System.nanoTime();
            return new Call.Command(List.of(words));
        };
        try {
            Object value = stopping ? sendSoon(call, next, until) : call.send(next, until, null);
            return new Reply(value, call.isDoubtful(), sent[0]);
        } catch (InterruptedException e) {
            stopping = true;
            return new Reply(sendSoon(call, next, until), call.isDoubtful(), sent[0]);
        } finally {
            call.giveBack();
        }
    }

    private static Object sendSoon(Call call, Supplier<Call.Command> next, long until)
            throws LinkException, ServerException {
        long now = System.nanoTime();
        return call.send(next, now + Math.min(until - now, MILLISECONDS.toNanos(Call.SHORT_MS)));
    }
}
