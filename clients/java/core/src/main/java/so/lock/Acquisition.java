package so.lock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.NANOSECONDS;

import java.lang.System.Logger.Level;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import so.lock.Connections.Connection;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/**
 * One acquisition: blocking calls on a connection of its own, and, if it is given up, the removal of all that is left.
 */
final class Acquisition implements Locks.Work {
    private static final long SOON_MS = 5;
    private static final long LATER = MILLISECONDS.toNanos(Call.LATER_MS);
    /** By when after the end of a wait the holders must be known; in ns. */
    static final long NAMED = 90_000_000;

    private final Locks locks;
    private final Request request;
    final String owner;
    private final boolean session;
    private final boolean unlimited;
    private final long waitMs;
    private final long until;
    private final Call call;
    private final AtomicReference<CompletableFuture<Void>> givenUp = new AtomicReference<>();
    private volatile boolean interrupted;
    private boolean abandoned;
    private boolean ended;
    /** When the granted request was sent, by nanoTime. */
    long sent;
    /** Why {@link #run} returned null: the last error of the connection; null if another owner holds the lock. */
    RuntimeException failure;

    /**
     * @param session whether the hold is bound to the connection, which {@link #connection} then returns
     */
    Acquisition(Locks locks, Request request, String owner, boolean session, Attempt attempt) {
        this.locks = locks;
        this.request = request;
        this.owner = owner;
        this.session = session;
        this.waitMs = attempt.waitMs();
        this.unlimited = waitMs < 0;
        this.until = attempt.until();
        boolean isShort = waitMs == 0 && !session && request.options().replicas == 0;
        this.call = new Call(locks.connections, request.key(), isShort, request.named(), null, List.of());
    }

    /**
     * Acquires the lock. Without a grant nothing is left on the server; after 2 seconds the cancellation continues in
     * the background. It stays one of the running acquisitions, until the caller has removed it.
     *
     * @return the reply to the request that was granted; null if the lock could not be acquired in time
     * @throws InterruptedException if interrupted, only if {@code interruptible}
     * @throws LockException or another {@link LockFailure}: an error reply of the server
     * @throws RuntimeException the library's, if there was never a connection
     */
    Object run(boolean interruptible) throws InterruptedException {
        if (interruptible && Thread.interrupted()) {
            throw new InterruptedException();
        }
        Object reply = null;
        boolean refused = false;
        boolean granted = false;
        locks.running.add(this); // before the check, so that close() gives it up
        try {
            if (!locks.closed) {
                reply = interruptible ? block(this::interrupt) : Call.uninterrupted(() -> block(null));
            }
        } catch (LinkException e) {
            failure = e.original();
        } catch (ServerException e) {
            failure = LockException.of(request.named(), e, call.address());
            refused = !e.isTransient();
        } catch (InterruptedException e) {
            interrupted = true;
        }
        boolean cancelled = end();
        try {
            // a request that was never sent needs no cancellation; close() may have found nothing to give up yet
            if (reply == null ? call.isDoubtful() : locks.closed) {
                giveUp();
            }
            awaitGivenUp();
            if (interrupted) {
                Thread.interrupted();
                throw new InterruptedException();
            } else if (locks.closed) {
                throw new LockException.Closed(request.named());
            } else if (cancelled) {
                return null;
            } else if (failure != null && (refused || waitMs == 0 || System.nanoTime() - until < 0)) {
                throw failure;
            }
            granted = reply != null;
            return reply;
        } finally {
            if (!session || !granted) {
                call.giveBack();
            }
        }
    }

    /** The exception after {@link #run} has returned null. */
    NotAcquiredException notAcquired() {
        List<String> holders = failure == null ? holders() : List.of();
        return new NotAcquiredException(request, waitMs, holders, failure, call.address());
    }

    private List<String> holders() {
        return request.keys().stream().flatMap(key -> holders(locks, key, until + NAMED)).distinct().toList();
    }

    /** The owners that hold a key, if the server replies before {@code end}. */
    static Stream<String> holders(Locks locks, String key, long end) {
        if (System.nanoTime() - end >= 0) {
            return Stream.of();
        }
        try {
            Object info = new Call(locks.connections, key)
                    .send(() -> Call.within(Request.info(key, "0"), end), end - Call.GRACE);
            return Request.holders(info).stream().map(holder -> (String) Request.field(holder, "owner"));
        } catch (LinkException | ServerException e) {
            Locks.LOG.log(Level.DEBUG, "the holders are not known", e);
            return Stream.of();
        }
    }

    /** Ends the wait because the locks are closed; the future completes when nothing is left on the server. */
    @Override
    public CompletableFuture<Void> abandon() {
        giveUp();
        return givenUp.get();
    }

    /** Ends the wait as if its time had passed, unless it has ended. */
    synchronized void stop() {
        if (!ended) {
            abandoned = true;
            giveUp();
        }
    }

    /** The wait has ended; true if it was stopped before. */
    private synchronized boolean end() {
        ended = true;
        return abandoned;
    }

    /** The connection to which a session is bound; it belongs to the caller from now on. */
    Connection connection() {
        return call.takeConnection();
    }

    private Object block(Runnable onInterrupt) throws LinkException, ServerException, InterruptedException {
        Object reply;
        do {
            reply = call.send(this::nextCommand, until, onInterrupt);
        } while (reply == null && givenUp.get() == null && System.nanoTime() - until < 0);
        return reply;
    }

    /**
     * The next blocking call. That of a fair wait has all that is left of the wait as its BLOCK, and is ended by
     * closing the connection, which keeps the place in the queue. A BLOCK that times out loses the place.
     */
    private Call.Command nextCommand() {
        sent = System.nanoTime();
        long left = NANOSECONDS.toMillis(until - sent + 999_999);
        long replicasMs = request.options().replicasMs;
        long longestMs = locks.maxBlockMs;
        if (request.kind() == Request.Kind.FAIR && left > 0) {
            List<String> arguments = request.acquire(owner, unlimited ? 0 : left, session);
            long last = NANOSECONDS.toMillis(until + Call.GRACE - sent);
            return new Call.Command(arguments, replicasMs + (longestMs < left ? longestMs : last), true);
        }
        return Call.blocking(blockMs -> request.acquire(owner, blockMs, session), until, longestMs, replicasMs);
    }

    /** If the request is given up, waits for a limited time until that is done. */
    private void awaitGivenUp() {
        CompletableFuture<Void> done = givenUp.get();
        if (done != null) {
            long left = NANOSECONDS.toMillis(until + Call.GRACE - System.nanoTime());
            done.copy().completeOnTimeout(null, Math.max(0, Math.min(left, Call.SHORT_MS)), MILLISECONDS).join();
        }
    }

    private void interrupt() {
        interrupted = true;
        giveUp();
    }

    /** Cancels the request in the background. If it has no reply within 2 seconds, its connection is closed. */
    private void giveUp() {
        if (givenUp.compareAndSet(null, new CompletableFuture<>())) {
            call.stop();
            locks.workers.clock.at(System.nanoTime() + MILLISECONDS.toNanos(Call.SHORT_MS), call::disconnect);
            cancelUntil(System.nanoTime() + MILLISECONDS.toNanos(request.leaseMs()), false);
        }
    }

    private void cancelUntil(long end, boolean again) {
        locks.workers.endings.add(locks.connections.knownNode(request.key()), () -> leaveNothing(end, again));
    }

    /**
     * Sends LOCK.CANCEL until there is nothing to cancel. The server does not know a request that has not arrived yet,
     * so LOCK.CANCEL is repeated until the request has its reply, which the cancellation triggers. If the connection of
     * the request was lost, LOCK.CANCEL is sent once more a little later, because the request may still arrive.
     *
     * @param again whether this is once more
     */
    private void leaveNothing(long end, boolean again) {
        try {
            while (true) {
                boolean replied = !call.isPending();
                if (replied && !call.isSent()) {
                    break;
                }
                long result = cancel(end);
                boolean doubtful = call.isDoubtful();
                if (result == 2 || result == 1 && !doubtful || replied && (again || !doubtful)) {
                    if (call.isPending()) { // its connection is dead, or the reply is on its way
                        locks.workers.clock.at(System.nanoTime() + LATER, call::disconnect);
                    }
                    break;
                } else if (replied) {
                    locks.workers.clock.at(System.nanoTime() + LATER, () -> cancelUntil(end, true));
                    return;
                }
                MILLISECONDS.sleep(SOON_MS);
            }
        } catch (LinkException | ServerException | InterruptedException e) {
            Locks.LOG.log(Level.WARNING, request.named() + ": it may stay held until its lease ends", e);
        }
        givenUp.get().complete(null);
    }

    /** 1: a wait was ended; 2: a hold was released; 0: there was neither. */
    private long cancel(long end) throws LinkException, ServerException {
        long result = (Long) Call.send(locks.connections, request.key(), request.cancel(owner), end);
        if (result > 0 || request.kind() != Request.Kind.MULTI) {
            return result;
        }
        try {
            Call.send(locks.connections, request.key(), request.release(owner, 1), end);
            return 2;
        } catch (ServerException e) {
            if (e.code().equals("NOTHELD")) {
                return 0;
            }
            throw e;
        }
    }
}
