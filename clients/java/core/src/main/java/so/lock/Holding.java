package so.lock;

import java.lang.System.Logger.Level;
import java.lang.ref.WeakReference;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import so.lock.wire.Line;
import so.lock.wire.LinkException;
import so.lock.wire.ServerException;

/** What a {@link Hold} stands for. It is kept while the program has forgotten the Hold, until it is released. */
final class Holding {
    static final String EXPIRED = "its lease expired";
    static final String REPORTED = "the server reported its loss";

    private enum State {
        HELD,
        LOST,
        RELEASED
    }

    private final Locks locks;
    private final Request request;
    private final String owner;
    private final Keeper keeper;
    private WeakReference<Hold> face;
    private final AtomicReference<State> state = new AtomicReference<>(State.HELD);
    private volatile Long token;
    private int permits;
    private volatile String why = Texts.RELEASED;

    /** @param session the connection to which it is bound, or null */
    Holding(Locks locks, Request request, String owner, Object reply, Line session) {
        this.locks = locks;
        this.request = request;
        this.owner = owner;
        this.permits = request.permits();
        this.keeper = new Keeper(locks, this, request, session);
        granted(request, reply);
    }

    /** Records the reply to a grant: the first one, or that of a write lock for an owner that holds the read lock. */
    void granted(Request what, Object reply) {
        if (what.options().fenced()) {
            token = (Long) reply;
        }
    }

    Keeper keeper() {
        return keeper;
    }

    /** The object for the program, which is passed to the listener. */
    Hold face() {
        Hold hold = new Hold(this);
        face = new WeakReference<>(hold);
        return hold;
    }

    Request request() {
        return request;
    }

    String owner() {
        return owner;
    }

    String key() {
        return request.key();
    }

    Long token() {
        return token;
    }

    int permits() {
        synchronized (this) {
            return permits;
        }
    }

    boolean isReleased() {
        return state.get() == State.RELEASED;
    }

    boolean isLost() {
        return state.get() == State.LOST || state.get() == State.HELD && keeper.isExpired();
    }

    /** Releases all that is left. */
    synchronized void release() {
        release(permits);
    }

    /** The program has forgotten its Hold. */
    void forgotten() {
        if (state.get() == State.HELD) {
            Locks.LOG.log(Level.WARNING, request.named() + " was never released; it is released now");
            locks.workers.help(this::close);
        }
    }

    /** Releases it, unless it was released or lost; nothing is thrown. */
    void close() {
        try {
            if (state.get() == State.HELD) {
                release();
            }
        } catch (RuntimeException e) {
            Locks.LOG.log(Level.DEBUG, "it may stay held until its lease ends: " + this, e);
        }
    }

    /** Releases some of its permits. */
    synchronized void release(int count) {
        if (isReleased()) {
            throw notHeld();
        }
        if (count < permits && !isLost()) {
            giveBack(request, count);
            permits -= count;
            return;
        }
        int all = permits;
        permits = 0;
        releaseLast(request, all);
    }

    /** Releases one of the two modes of a read-write lock; the other one stays held. */
    void releaseOnly(Request mode) {
        giveBack(mode, 1);
    }

    /** Releases the rest; for a read-write lock this may be another mode than the first one. */
    synchronized void releaseLast(Request mode, int count) {
        State before = state.getAndSet(State.RELEASED);
        if (before == State.RELEASED) {
            throw notHeld();
        }
        locks.holdings.remove(this);
        try {
            giveBack(mode, count);
        } finally {
            keeper.stop();
        }
        if (before == State.LOST) {
            throw notHeld();
        }
    }

    /** The exception of a release of what is not held any more. */
    private NotHeldException notHeld() {
        return new NotHeldException(request, why);
    }

    /** If a release is sent again because its reply was lost, NOTHELD means that the first one was executed. */
    private void giveBack(Request mode, int count) {
        Talk talk = new Talk(locks.lines, key());
        try {
            talk.shortly(mode.release(owner, count), keeper.end());
        } catch (LinkException e) {
            throw e.original();
        } catch (ServerException e) {
            boolean notHeld = e.code().equals("NOTHELD");
            if (notHeld && request.keys().size() > 1) {
                releaseEach();
            }
            if (!notHeld) {
                throw LockException.of(request, e, talk.where());
            }
            if (!talk.isDoubtful() || keeper.isExpired()) {
                throw new NotHeldException(request, keeper.isExpired() ? EXPIRED : "");
            }
        }
    }

    /**
     * Some keys of a multi-key lock were lost: releases the others, so that they are not held until their leases
     * expire.
     */
    private void releaseEach() {
        for (String key : request.keys()) {
            try {
                Talk.ask(locks.lines, key, List.of("LOCK.RELEASE", key, owner), keeper.end());
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
        keeper.stop();
        Consumer<Hold> listener = request.options().onLost();
        Hold hold = face.get();
        if (listener != null && hold != null) {
            locks.workers.help(() -> report(listener, hold));
        }
    }

    private void report(Consumer<Hold> listener, Hold hold) {
        try {
            listener.accept(hold);
        } catch (RuntimeException | Error e) {
            Locks.LOG.log(Level.ERROR, request.named() + ": error in the callback for its loss", e);
        }
    }

    @Override
    public String toString() {
        return "Hold[" + String.join(",", request.keys()) + " " + owner + " " + state + "]";
    }
}
