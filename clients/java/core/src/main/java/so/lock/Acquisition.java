package so.lock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.NANOSECONDS;

import java.lang.System.Logger.Level;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import so.lock.wire.Line;
import so.lock.wire.LinkException;
import so.lock.wire.ServerException;

/**
 * One acquisition: blocking calls on a connection of its own, and, if it is given up, the removal of all that is left.
 */
final class Acquisition {
    private static final long MARGIN_MS = 2_000;
    private static final long SOON_MS = 5;
    private static final long LATER_MS = 100;
    private static final long NAMED = 90_000_000; // ns
    private static final long FOR_EVER = 1L << 61;

    private final Locks locks;
    private final Request request;
    private final String owner;
    private final boolean session;
    private final boolean forEver;
    private final long waitMs;
    private final long until;
    private final Talk talk;
    private final AtomicReference<CompletableFuture<Void>> givenUp = new AtomicReference<>();
    private volatile boolean interrupted;
    private long sent;
    private RuntimeException failure;

    /**
     * @param waitMs how long to wait; 0: do not wait, negative: no limit
     * @param session whether the hold is bound to the connection, which {@link #line} then returns
     */
    Acquisition(Locks locks, Request request, String owner, boolean session, long waitMs) {
        this.locks = locks;
        this.request = request;
        this.owner = owner;
        this.session = session;
        this.forEver = waitMs < 0;
        this.waitMs = waitMs;
        this.until = System.nanoTime() + (forEver ? FOR_EVER : Math.min(MILLISECONDS.toNanos(waitMs), FOR_EVER));
        this.talk = new Talk(locks.lines, request.key(), request.named(), locks.connectTimeout());
    }

    /**
     * Acquires the lock. Without a grant nothing is left on the server; after 2 seconds the cancellation continues in
     * the background.
     *
     * @return the reply to the request that was granted; null if the lock could not be acquired in time, see
     *     {@link #failure}
     * @throws InterruptedException if interrupted, only if {@code interruptible}
     * @throws LockException or another {@link LockError}: an error reply of the server
     * @throws RuntimeException the library's, if there was never a connection
     */
    Object run(boolean interruptible) throws InterruptedException {
        if (interruptible && Thread.interrupted()) {
            throw new InterruptedException();
        }
        if (locks.isClosed()) {
            throw new LockException.Closed();
        }
        boolean granted = false;
        locks.running.add(this);
        try {
            Object reply = interruptible ? block(this::interrupt) : Talk.uninterrupted(() -> block(null));
            if (reply == null) {
                leave();
            } else {
                throwIfInterrupted();
            }
            granted = reply != null;
            return reply;
        } catch (LinkException e) {
            leave();
            return failed(e.original());
        } catch (ServerException e) {
            leave();
            RuntimeException refusal = LockException.of(request, e, talk.where());
            if (!e.isPassing()) {
                throw refusal;
            }
            return failed(refusal);
        } catch (InterruptedException e) {
            leave();
            throw e;
        } finally {
            locks.running.remove(this);
            if (!session || !granted) {
                talk.hand();
            }
        }
    }

    /** A transient error ended a wait, or a try. */
    private Object failed(RuntimeException e) {
        if (waitMs == 0 || System.nanoTime() - until < 0) {
            throw e;
        }
        failure = e;
        return null;
    }

    /** Why {@link #run} returned null: the last error of the connection; null if another owner holds the lock. */
    RuntimeException failure() {
        return failure;
    }

    /** The exception after {@link #run} has returned null. */
    NotAcquiredException notAcquired() {
        List<String> holders = failure == null ? holders() : List.of();
        return new NotAcquiredException(request, waitMs, holders, failure, talk.where());
    }

    private List<String> holders() {
        Set<String> owners = new LinkedHashSet<>();
        try {
            for (String key : request.keys()) {
                Object info = new Talk(locks.lines, key).once(Request.info(key), until + NAMED);
                if (field(info, "holders") instanceof List<?> holders) {
                    holders.forEach(holder -> owners.add((String) field(holder, "owner")));
                }
            }
        } catch (LinkException | ServerException e) {
            Locks.LOG.log(Level.DEBUG, "the holders are not known", e);
        }
        return List.copyOf(owners);
    }

    /** A field of a map, which is a list of keys and values. */
    private static Object field(Object map, String name) {
        List<?> words = map instanceof List<?> list ? list : List.of();
        int at = words.indexOf(name);
        return at < 0 || at + 1 == words.size() ? null : words.get(at + 1);
    }

    /** Ends the wait because the locks are closed; the future completes when nothing is left on the server. */
    CompletableFuture<Void> abandon() {
        giveUp();
        return givenUp.get();
    }

    String owner() {
        return owner;
    }

    /** When the granted request was sent, by nanoTime. */
    long sent() {
        return sent;
    }

    /** The connection to which a session is bound; it belongs to the caller from now on. */
    Line line() {
        return talk.take();
    }

    private Object block(Runnable onInterrupt) throws LinkException, ServerException, InterruptedException {
        Object reply;
        do {
            reply = talk.ask(this::nextCommand, until, onInterrupt);
        } while (reply == null && givenUp.get() == null && System.nanoTime() - until < 0);
        return reply;
    }

    /**
     * The next blocking call. That of a fair wait has all that is left of the wait as its BLOCK, and is ended by
     * closing the connection, which keeps the place in the queue. A BLOCK that times out loses the place.
     */
    private Talk.Command nextCommand() {
        sent = System.nanoTime();
        long left = NANOSECONDS.toMillis(until - sent + 999_999);
        long last = NANOSECONDS.toMillis(until + Talk.GRACE - sent) + request.options().replicasWait().toMillis();
        if (left <= 0) {
            return new Talk.Command((int) Math.max(last, 1), request.acquire(owner, -1, session));
        }
        long blockMs = Math.min(left, locks.maxBlockMs());
        if (request.kind() == Request.Kind.FAIR) {
            long timeout = blockMs < left ? blockMs : last;
            return new Talk.Command((int) timeout, request.acquire(owner, forEver ? 0 : left, session));
        }
        return new Talk.Command((int) Math.min(blockMs + MARGIN_MS, last), request.acquire(owner, blockMs, session));
    }

    /**
     * Gives up a request that was not granted as far as is known. A request that was never sent needs no cancellation.
     */
    private void leave() throws InterruptedException {
        if (talk.isDoubtful()) {
            giveUp();
        }
        throwIfInterrupted();
    }

    private void throwIfInterrupted() throws InterruptedException {
        awaitGivenUp();
        if (interrupted) {
            Thread.interrupted();
            throw new InterruptedException();
        }
        if (locks.isClosed()) {
            throw new LockException.Closed();
        }
    }

    /** If the request is given up, waits for a limited time until that is done. */
    private void awaitGivenUp() {
        CompletableFuture<Void> done = givenUp.get();
        if (done != null) {
            long left = NANOSECONDS.toMillis(until + Talk.GRACE - System.nanoTime());
            done.copy().completeOnTimeout(null, Math.max(0, Math.min(left, MARGIN_MS)), MILLISECONDS).join();
        }
    }

    private void interrupt() {
        interrupted = true;
        giveUp();
    }

    /** Cancels the request in the background. If it has no reply within 2 seconds, its connection is closed. */
    private void giveUp() {
        CompletableFuture<Void> done = new CompletableFuture<>();
        if (givenUp.compareAndSet(null, done)) {
            talk.stop();
            locks.workers.clock.at(System.nanoTime() + MILLISECONDS.toNanos(MARGIN_MS), talk::hangUp);
            locks.workers.help(() -> {
                try {
                    leaveNothing();
                } finally {
                    done.complete(null);
                }
            });
        }
    }

    /**
     * Sends LOCK.CANCEL until there is nothing to cancel. The server does not know a request that has not arrived yet,
     * so LOCK.CANCEL is repeated until the request has its reply, which the cancellation triggers. If the connection of
     * the request was lost, LOCK.CANCEL is sent once more a little later, because the request may still arrive.
     */
    private void leaveNothing() {
        long end = System.nanoTime() + MILLISECONDS.toNanos(request.leaseMs());
        try {
            for (int asks = talk.isDoubtful() ? 2 : 1; asks > 0;) {
                boolean answered = !talk.isAsking();
                long came = cancel(end);
                if (came == 2 || came == 1 && !talk.isDoubtful()) {
                    return;
                }
                if (answered) {
                    asks--;
                }
                MILLISECONDS.sleep(answered ? LATER_MS : SOON_MS);
            }
        } catch (LinkException | ServerException | InterruptedException e) {
            Locks.LOG.log(Level.WARNING, request.named() + ": it may stay held until its lease ends", e);
        }
    }

    /** 1: a wait was ended; 2: a hold was released; 0: there was neither. */
    private long cancel(long end) throws LinkException, ServerException {
        long came = (Long) Talk.ask(locks.lines, request.key(), request.cancel(owner), end);
        if (came > 0 || request.kind() != Request.Kind.MULTI) {
            return came;
        }
        try {
            Talk.ask(locks.lines, request.key(), request.release(owner, 1), end);
            return 2;
        } catch (ServerException e) {
            if (e.code().equals("NOTHELD")) {
                return 0;
            }
            throw e;
        }
    }
}
