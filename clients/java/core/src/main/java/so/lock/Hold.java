package so.lock;

import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import so.lock.wire.Line;
import so.lock.wire.LinkException;
import so.lock.wire.ServerException;

/**
 * A lock that is held, or permits. For any thread; close it when the work is done. In a try-with-resources statement an
 * exception of the body is thrown as it is, and one of {@link #close} is added to it as suppressed.
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

    /** Notes a grant's reply: the first one's, or that of a write by an owner that reads. */
    void granted(Request what, Object reply) {
        if (what.options().fenced()) {
            token = (Long) reply;
        }
    }

    Keeper keeper() {
        return keeper;
    }

    /** The name by which the server knows the holder; {@code LOCK.GUARD} takes it. */
    public String owner() {
        return owner;
    }

    /** The key, of several the first. */
    public String key() {
        return request.key();
    }

    /** All keys. */
    public List<String> keys() {
        return request.keys();
    }

    /** The fencing token, a number that only grows for this lock; null if none was asked for. */
    public Long token() {
        return token;
    }

    /** How many permits of a semaphore are left with this hold; 1 for a lock. */
    public synchronized int permits() {
        return permits;
    }

    /** Whether it was lost, as far as is known: the server has said so, or nobody has confirmed it for a lease. */
    public boolean isLost() {
        return state.get() == State.LOST || state.get() == State.HELD && keeper.isOver();
    }

    /**
     * Gives it back, whatever the thread's interrupts.
     *
     * @throws NotHeldException if it was lost before, or is released already
     * @throws LockException if the server refuses
     * @throws RuntimeException the library's, if there was no connection until the lease was over
     */
    public synchronized void release() {
        release(permits);
    }

    /** {@link #release()}, but nothing if it is released already. */
    @Override
    public void close() {
        if (state.get() != State.RELEASED) {
            release();
        }
    }

    /** Gives some of its permits back. */
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

    /** Releases one of the two modes of a read-write lock; the other stays. */
    void releaseOnly(Request mode) {
        giveBack(mode, 1);
    }

    /** Releases what is left; of a read-write lock that may be another mode than the one that it began with. */
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

    /** A release that is sent again, because the first answer was lost, may find nothing: then all is well. */
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
            if (!notHeld || !talk.isDoubtful() || keeper.isOver()) {
                throw LockException.of(e);
            }
        }
    }

    /** Some of several locks are lost; the others are not to be held for a lease. */
    private void releaseEach() {
        for (String key : keys()) {
            try {
                Talk.ask(locks.lines, key, List.of("LOCK.RELEASE", key, owner), keeper.end());
            } catch (LinkException | ServerException e) {
                continue; // this one is lost, or goes with its lease
            }
        }
    }

    /** Notes that it is lost, and tells so, once; not after a release. */
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
