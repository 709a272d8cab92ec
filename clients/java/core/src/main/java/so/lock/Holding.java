package so.lock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.lang.System.Logger.Level;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import so.lock.Connections.Connection;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/** A hold of one request. */
final class Holding extends Held {
    static final String EXPIRED = "its lease expired";
    static final String REPORTED = "the server reported its loss";

    private enum State {
        HELD,
        LOST,
        RELEASED
    }

    private final Locks locks;
    final Request request;
    final String owner;
    final Keeper keeper;
    private final ReentrantLock lock = new ReentrantLock();
    private final List<Request> modes = new CopyOnWriteArrayList<>(); // two of a read-write lock
    private final AtomicReference<State> state = new AtomicReference<>(State.HELD);
    volatile OptionalLong token = OptionalLong.empty();
    volatile int permits;
    private volatile String why = Texts.RELEASED;
    private volatile Runnable whenLost = () -> {};

    /** @param session the connection to which it is bound, or null */
    Holding(Locks locks, Request requested, String owner, Object reply, Connection session) {
        this.locks = locks;
        this.request = requested.withoutListener();
        this.owner = owner;
        this.permits = request.permits();
        this.keeper = new Keeper(locks, this, request, session);
        granted(request, reply);
    }

    /** Records the reply to a grant: the first one, or that of the other mode of a read-write lock. */
    void granted(Request what, Object reply) {
        modes.add(what.withoutListener());
        if (what.options().fenced) {
            token = OptionalLong.of((Long) reply);
        }
    }

    @Override
    Locks locks() {
        return locks;
    }

    @Override
    LockName named() {
        return request.named();
    }

    @Override
    String owner() {
        return owner;
    }

    @Override
    List<String> keys() {
        return request.keys();
    }

    @Override
    OptionalLong token() {
        return token;
    }

    @Override
    int permits() {
        return permits;
    }

    @Override
    boolean isHeld() {
        return state.get() == State.HELD;
    }

    @Override
    boolean isReleased() {
        return state.get() == State.RELEASED;
    }

    @Override
    boolean isLost() {
        return state.get() == State.LOST || state.get() == State.HELD && keeper.isExpired();
    }

    @Override
    void release() {
        locked(() -> release(permits));
    }

    @Override
    void inBackground(Runnable task) {
        locks.workers.endings.add(locks.connections.knownNode(request.key()), task);
    }

    /** In every mode. */
    @Override
    void close() {
        locked(() -> {
            try {
                if (state.get() == State.HELD) {
                    modes.stream().skip(1).forEach(this::releaseOnly);
                    releaseLast(modes.get(0), permits);
                }
            } catch (RuntimeException e) {
                Locks.LOG.log(Level.DEBUG, "it may stay held until its lease ends: " + this, e);
            }
        });
    }

    /** Checks a lease for {@link #renew}. */
    void checkLease(long leaseMs) {
        if (leaseMs > 0 && request.options().session) {
            throw new IllegalArgumentException("lease: a session has no lease that could be renewed");
        }
    }

    @Override
    void renew(long leaseMs) {
        checkLease(leaseMs);
        checkHeld();
        try {
            keeper.renew(leaseMs, System.nanoTime() + MILLISECONDS.toNanos(Call.SHORT_MS) - Call.GRACE);
        } catch (LinkException e) {
            throw locks.failure(request.named(), e);
        } catch (ServerException e) {
            if (e.code().equals("NOTHELD")) {
                lose(REPORTED);
                throw notHeld();
            }
            throw locks.refusal(request.named(), e, request.key());
        }
    }

    @Override
    Object guard(List<String> command) {
        if (command.isEmpty()) {
            throw new IllegalArgumentException("command must not be empty");
        }
        checkHeld();
        try {
            return new Query(locks, request.named(), request.key()).sendOnce(request.guard(owner, command));
        } catch (NotHeldException e) {
            lose(REPORTED);
            throw notHeld();
        }
    }

    private void checkHeld() {
        if (isLost()) {
            lose(EXPIRED); // if the clock has not done so yet
        }
        if (state.get() != State.HELD) {
            throw notHeld();
        }
    }

    @Override
    void release(int count) {
        locked(() -> {
            if (isReleased()) {
                throw notHeld();
            } else if (count < 1 || count > permits) {
                throw new IllegalArgumentException("permits must be from 1 to the " + permits + " held, not " + count);
            } else if (count < permits && !isLost()) {
                releaseSome(count, permits - count);
                return;
            }
            int all = permits;
            permits = 0;
            releaseLast(request, all);
        });
    }

    private void locked(Runnable release) {
        lock.lock();
        try {
            release.run();
        } finally {
            lock.unlock();
        }
    }

    /** Releases the mode that a thread unlocked last. */
    void unlock(Request mode) {
        locked(() -> releaseLast(mode, mode.permits()));
    }

    /** Releases one of the two modes of a read-write lock; the other one stays held. */
    void releaseOnly(Request mode) {
        modes.removeIf(one -> one.kind() == mode.kind());
        giveBack(mode, 1);
    }

    /** Releases the rest; for a read-write lock this may be another mode than the first one. */
    private void releaseLast(Request mode, int count) {
        State before = state.getAndSet(State.RELEASED);
        if (before == State.RELEASED) {
            throw notHeld();
        }
        if (before == State.LOST) {
            NotHeldException lost = notHeld();
            why = Texts.RELEASED;
            CompletableFuture.runAsync(() -> giveBack(mode, count), this::inBackground) // the server may not know of it
                    .exceptionally(e -> null)
                    .completeOnTimeout(null, Call.LATER_MS, MILLISECONDS)
                    .join();
            throw lost;
        }
        why = Texts.RELEASED;
        boolean replied = false;
        try {
            giveBack(mode, count);
            replied = true;
        } finally {
            locks.holdings.remove(this); // not before, because close() waits for it
            keeper.stop(replied);
        }
    }

    /** The exception of a release of what is not held any more. */
    private NotHeldException notHeld() {
        NotHeldException e = new NotHeldException(request.named(), why);
        if (keeper.failure != null && why.equals(EXPIRED)) {
            e.initCause(keeper.failure);
        }
        return e;
    }

    /** If a release is sent again because its reply was lost, NOTHELD means that the first one was executed. */
    private void giveBack(Request mode, int count) {
        Call call = new Call(locks.connections, request.key()).checking();
        try {
            call.send(() -> new Call.Command(mode.release(owner, count)), keeper.end);
        } catch (LinkException e) {
            throw e.original();
        } catch (ServerException e) {
            boolean notHeld = e.code().equals("NOTHELD");
            if (notHeld && request.keys().size() > 1) {
                releaseEach();
            }
            if (!notHeld) {
                throw LockException.of(request.named(), e, call.address());
            }
            if (!call.isDoubtful() || keeper.isExpired()) {
                throw new NotHeldException(request.named(), keeper.isExpired() ? EXPIRED : "");
            }
        }
    }

    /**
     * Releases some of its permits. If the reply is lost, the release is not simply sent again, because permits that
     * the program still uses would be released: LOCK.INFO shows whether it was executed.
     */
    private void releaseSome(int count, int left) {
        long held = -1;
        while (held != left) {
            Call call = new Call(locks.connections, request.key());
            try {
                Object reply = call.send(() -> {
                    if (call.isDoubtful()) {
                        LockSupport.parkNanos(MILLISECONDS.toNanos(Call.LATER_MS)); // it may still arrive
                    }
                    return new Call.Command(call.isDoubtful() ? Request.info(request.key(), "0") : request.release(owner, count));
                }, keeper.end);
                held = reply instanceof Long now ? now : heldBy(reply);
            } catch (LinkException e) {
                throw e.original();
            } catch (ServerException e) {
                throw LockException.of(request.named(), e, call.address());
            }
            if (held < left) {
                lose(REPORTED);
                throw notHeld();
            }
        }
        permits = left;
    }

    private long heldBy(Object info) {
        return Request.holders(info).stream()
                .filter(holder -> owner.equals(Request.field(holder, "owner")))
                .mapToLong(holder -> (Long) Request.field(holder, "holds"))
                .sum();
    }

    /**
     * Some keys of a multi-key lock were lost: releases the others, so that they are not held until their leases
     * expire.
     */
    private void releaseEach() {
        for (String key : request.keys()) {
            try {
                Call.send(locks.connections, key, List.of("LOCK.RELEASE", key, owner), keeper.end);
            } catch (LinkException | ServerException e) {
                continue; // this one is lost, or its lease will expire
            }
        }
    }

    /** Records the loss and reports it, once; not after a release. */
    void lose(String reason) {
        if (!state.compareAndSet(State.HELD, State.LOST)) {
            return;
        }
        why = reason;
        locks.holdings.remove(this);
        keeper.stop(false);
        whenLost.run();
        report();
    }

    /** Runs this, which must not block, when it is lost, and at once if it is lost already. */
    void whenLost(Runnable what) {
        whenLost = what;
        if (state.get() == State.LOST) {
            what.run();
        }
    }

    @Override
    public String toString() {
        return "Hold[" + String.join(",", request.keys()) + " " + owner + " " + state + "]";
    }
}
