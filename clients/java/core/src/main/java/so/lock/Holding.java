package so.lock;

import java.lang.System.Logger.Level;
import java.lang.ref.WeakReference;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import so.lock.Connections.Connection;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/** The state of a {@link Hold}, which is kept until it is released, also if the program has forgotten the Hold. */
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
    private final ReentrantLock lock = new ReentrantLock();
    private final List<Request> modes = new CopyOnWriteArrayList<>(); // two of a read-write lock
    private WeakReference<Hold> object;
    private final AtomicReference<State> state = new AtomicReference<>(State.HELD);
    private volatile OptionalLong token = OptionalLong.empty();
    private volatile int permits;
    private volatile String why = Texts.RELEASED;

    /** @param session the connection to which it is bound, or null */
    Holding(Locks locks, Request request, String owner, Object reply, Connection session) {
        this.locks = locks;
        this.request = request;
        this.owner = owner;
        this.permits = request.permits();
        this.keeper = new Keeper(locks, this, request, session);
        granted(request, reply);
    }

    /** Records the reply to a grant: the first one, or that of the other mode of a read-write lock. */
    void granted(Request what, Object reply) {
        modes.add(what);
        if (what.options().fenced) {
            token = OptionalLong.of((Long) reply);
        }
    }

    Keeper keeper() {
        return keeper;
    }

    /** The object for the program, which is passed to the listener. */
    Hold object() {
        Hold hold = new Hold(this);
        object = new WeakReference<>(hold);
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

    OptionalLong token() {
        return token;
    }

    int permits() {
        return permits;
    }

    boolean isReleased() {
        return state.get() == State.RELEASED;
    }

    boolean isLost() {
        return state.get() == State.LOST || state.get() == State.HELD && keeper.isExpired();
    }

    /** Releases all that is left. */
    void release() {
        release(permits);
    }

    /** The program has forgotten its Hold. Runs on a thread that all Locks share. */
    void forgotten() {
        if (state.get() == State.HELD) {
            locks.workers.help(() -> {
                Locks.LOG.log(Level.WARNING, request.named() + " was never released; it is released now");
                close();
            });
        }
    }

    /** Releases it in every mode, unless it was released or lost; nothing is thrown. */
    void close() {
        try {
            if (state.get() == State.HELD) {
                modes.stream().skip(1).forEach(this::releaseOnly);
                releaseLast(modes.get(0), permits);
            }
        } catch (RuntimeException e) {
            Locks.LOG.log(Level.DEBUG, "it may stay held until its lease ends: " + this, e);
        }
    }

    /** Releases some of its permits. */
    void release(int count) {
        lock.lock();
        try {
            if (isReleased()) {
                throw notHeld();
            }
            if (count < permits && !isLost()) {
                releaseSome(count, permits - count);
                return;
            }
            int all = permits;
            permits = 0;
            releaseLast(request, all);
        } finally {
            lock.unlock();
        }
    }

    /** Releases one of the two modes of a read-write lock; the other one stays held. */
    void releaseOnly(Request mode) {
        modes.remove(mode);
        giveBack(mode, 1);
    }

    /** Releases the rest; for a read-write lock this may be another mode than the first one. */
    void releaseLast(Request mode, int count) {
        State before = state.getAndSet(State.RELEASED);
        if (before == State.RELEASED) {
            throw notHeld();
        }
        String reason = why;
        why = Texts.RELEASED;
        locks.holdings.remove(this);
        try {
            giveBack(mode, count);
        } catch (NotHeldException e) {
            throw before == State.LOST ? new NotHeldException(request, reason) : e;
        } finally {
            keeper.stop();
        }
        if (before == State.LOST) {
            throw new NotHeldException(request, reason);
        }
    }

    /** The exception of a release of what is not held any more. */
    private NotHeldException notHeld() {
        return new NotHeldException(request, why);
    }

    /** If a release is sent again because its reply was lost, NOTHELD means that the first one was executed. */
    private void giveBack(Request mode, int count) {
        Call call = new Call(locks.connections, key());
        try {
            call.shortly(mode.release(owner, count), keeper.end());
        } catch (LinkException e) {
            throw e.original();
        } catch (ServerException e) {
            boolean notHeld = e.code().equals("NOTHELD");
            if (notHeld && request.keys().size() > 1) {
                releaseEach();
            }
            if (!notHeld) {
                throw LockException.of(request, e, call.where());
            }
            if (!call.isDoubtful() || keeper.isExpired()) {
                throw new NotHeldException(request, keeper.isExpired() ? EXPIRED : "");
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
            Call call = new Call(locks.connections, key());
            try {
                Object reply = call.shortly(() -> call.isDoubtful() ? Call.later(Request.info(key()))
                        : new Call.Command(Call.SHORT_MS, request.release(owner, count)), keeper.end());
                held = reply instanceof Long now ? now : heldBy(reply);
            } catch (LinkException e) {
                throw e.original();
            } catch (ServerException e) {
                throw LockException.of(request, e, call.where());
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
                Call.send(locks.connections, key, List.of("LOCK.RELEASE", key, owner), keeper.end());
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
        keeper.stop();
        Consumer<Hold> listener = request.options().onLost;
        Hold hold = object.get();
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
