package so.lock;

import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import so.lock.wire.Line;
import so.lock.wire.LinkException;
import so.lock.wire.ServerException;

/**
 * A lock that is held, or permits. Any thread may use it. Close it when the work is done. In a try-with-resources
 * statement an exception of the body is thrown unchanged, and one of {@link #close} is added to it as suppressed.
 */
public final class Hold implements AutoCloseable {
    private enum State {
        HELD,
        LOST,
        RELEASED
    }

    private final Locks locks;
    private final Request request;
    private final String owner;
    private final Keeper keeper;
    private final AtomicReference<State> state = new AtomicReference<>(State.HELD);
    private volatile Long token;
    private int permits;

    /** @param session the connection to which it is bound, or null */
    Hold(Locks locks, Request request, String owner, Object reply, Line session) {
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

    /** The owner's name on the server, an argument of {@code LOCK.GUARD}. */
    public String owner() {
        return owner;
    }

    /** The key; the first one of a multi-key lock. */
    public String key() {
        return request.key();
    }

    /** All keys. */
    public List<String> keys() {
        return request.keys();
    }

    /** The fencing token, a number that only increases for this lock; null if none was requested. */
    public Long token() {
        return token;
    }

    /** How many permits of a semaphore this hold still has; 1 for a lock. */
    public synchronized int permits() {
        return permits;
    }

    /**
     * Whether it is known to be lost: the server has reported it, or the hold was not confirmed for as long as its
     * lease.
     */
    public boolean isLost() {
        return state.get() == State.LOST || state.get() == State.HELD && keeper.isExpired();
    }

    /**
     * Releases it, whether or not the thread is interrupted.
     *
     * @throws NotHeldException if it was lost before, or is released already
     * @throws LockException if the server refuses
     * @throws RuntimeException the library's, if there was no connection until the lease expired
     */
    public synchronized void release() {
        release(permits);
    }

    /** The same as {@link #release()}, but does nothing if it is released already. */
    @Override
    public void close() {
        if (state.get() != State.RELEASED) {
            release();
        }
    }

    /** Releases some of its permits. */
    synchronized void release(int count) {
        if (state.get() == State.RELEASED) {
            throw new NotHeldException(key() + " is released already");
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
        boolean lost = state.getAndSet(State.RELEASED) == State.LOST;
        try {
            giveBack(mode, count);
        } finally {
            keeper.stop();
        }
        if (lost) {
            throw new NotHeldException("NOTHELD " + key() + " was lost before it was released");
        }
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
            if (notHeld && keys().size() > 1) {
                releaseEach();
            }
            if (!notHeld || !talk.isDoubtful() || keeper.isExpired()) {
                throw LockException.of(e);
            }
        }
    }

    /**
     * Some keys of a multi-key lock were lost: releases the others, so that they are not held until their leases
     * expire.
     */
    private void releaseEach() {
        for (String key : keys()) {
            try {
                Talk.ask(locks.lines, key, List.of("LOCK.RELEASE", key, owner), keeper.end());
            } catch (LinkException | ServerException e) {
                continue; // this one is lost, or its lease will expire
            }
        }
    }

    /** Records the loss and reports it, once; not after a release. */
    void lose() {
        if (!state.compareAndSet(State.HELD, State.LOST)) {
            return;
        }
        keeper.stop();
        Consumer<Hold> listener = request.options().onLost();
        if (listener != null) {
            locks.help(() -> listener.accept(this));
        }
    }

    @Override
    public String toString() {
        return "Hold[" + String.join(",", keys()) + " " + owner + " " + state + "]";
    }
}
