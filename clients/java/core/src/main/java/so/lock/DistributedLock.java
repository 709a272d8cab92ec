package so.lock;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/**
 * A lock like those of the JDK: it is held by a thread, which may lock it again; that is counted locally and sends
 * nothing. Objects of one {@link Locks} for the same key are one lock, whether fair or not. If the thread ends, the
 * lease is not renewed any more, and the hold ends when it expires.
 */
public final class DistributedLock implements Lock {
    private static final long NO_LIMIT = -1;
    private static final String NOT_BY_THIS_THREAD = "this thread has not locked it";

    private final Locks locks;
    private final Target target;
    private final String name;
    private final int mode;

    /** @param mode 0, or 1 for the second mode of a read-write lock */
    DistributedLock(Locks locks, Target target, String name, int mode) {
        this.locks = locks;
        this.target = target;
        this.name = name;
        this.mode = mode;
    }

    /** Waits for the lock without a limit, whether or not the thread is interrupted. */
    @Override
    public void lock() {
        try {
            enter(NO_LIMIT, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Waits for the lock without a limit; an interrupt ends the wait. */
    @Override
    public void lockInterruptibly() throws InterruptedException {
        enter(NO_LIMIT, true);
    }

    /** False if another owner holds the lock; if the server cannot be reached, the library's exception is thrown. */
    @Override
    public boolean tryLock() {
        try {
            return enter(0, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Waits for at most this time; otherwise the same as {@link #tryLock()}. */
    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return enter(Math.max(0, unit.toMillis(time)), true);
    }

    /** @throws NotHeldException if this thread has not locked it, or its hold was lost */
    @Override
    public void unlock() {
        ThreadHold held = held();
        if (held == null || held.count(mode) == 0) {
            throw new NotHeldException(target.named(), NOT_BY_THIS_THREAD);
        }
        held.add(mode, -1);
        if (held.count(mode) > 0) {
            return;
        }
        boolean last = held.total() == 0;
        if (last) {
            locks.threads.remove(place());
        }
        target.unlock(held.hold, last);
    }

    /** Not supported. */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("there are no conditions");
    }

    /**
     * A hold that is bound to no thread, for try-with-resources. It is not reentrant: another acquisition waits for
     * this one.
     *
     * @param wait how long to wait, rounded down to milliseconds; 0: do not wait
     * @return never null
     * @throws NotAcquiredException if it could not be acquired in time
     * @throws LockException if it was refused
     */
    public Hold acquireHold(Duration wait) throws InterruptedException, NotAcquiredException {
        return target.acquire(Attempt.of(wait));
    }

    /** {@link #acquireHold(Duration)} without a limit. */
    public Hold acquireHold() throws InterruptedException {
        return target.tryAcquire(Attempt.silent(NO_LIMIT, true));
    }

    /**
     * What this thread holds by {@link #lock} and the like. Do not close it: call {@link #unlock}.
     *
     * @throws NotHeldException if it holds nothing
     */
    public Hold currentHold() {
        if (getHoldCount() == 0) {
            throw new NotHeldException(target.named(), NOT_BY_THIS_THREAD);
        }
        return held().hold;
    }

    /** How often this thread has locked it and not yet unlocked it. */
    public int getHoldCount() {
        ThreadHold held = held();
        return held == null ? 0 : held.count(mode);
    }

    /** Whether this thread holds it, as far as is known. */
    public boolean isHeldByCurrentThread() {
        return getHoldCount() > 0 && isHeld(held().hold);
    }

    /**
     * Whether any owner holds it, or one of its keys. It is answered within 2 seconds.
     *
     * @throws LockException if the server refuses
     */
    public boolean isLocked() {
        return target.isLocked();
    }

    /** Who holds it and who waits for it. It is answered within 2 seconds. */
    public LockInfo info() {
        return target.info();
    }

    /**
     * Takes it away from its owners, for operators: they are only notified of the loss, and may still be working. It is
     * answered within 2 seconds, and not repeated if the reply is lost.
     *
     * @return whether it was held
     */
    public boolean forceUnlock() {
        return target.force();
    }

    private boolean enter(long waitMs, boolean interruptible) throws InterruptedException {
        if (interruptible && Thread.interrupted()) {
            throw new InterruptedException();
        }
        ThreadHold held = held();
        Attempt attempt = Attempt.byThread(waitMs, interruptible);
        if (held == null) {
            Hold hold = target.tryAcquire(attempt);
            if (hold == null) {
                return false;
            }
            held = new ThreadHold(hold);
            locks.threads.put(place(), held);
        } else if (locks.closed) {
            throw new LockException.Closed(target.named());
        } else if (!isHeld(held.hold)) {
            throw new NotHeldException(target.named(), "it was lost, and this thread must unlock it first");
        } else if (held.count(mode) > 0 && target.fenced() && held.hold.token().isEmpty()) {
            throw new IllegalArgumentException("fenced: this thread holds it without a fencing token");
        } else if (held.count(mode) == 0 && !target.extend(held.hold, attempt)) {
            return false;
        }
        held.add(mode, 1);
        return true;
    }

    Target target() {
        return target;
    }

    /** One may have been released: when the locks, or those of one of its servers, were closed. */
    private static boolean isHeld(Hold hold) {
        return !hold.isLost() && !hold.held.isReleased();
    }

    /** What only objects for the same lock and mode have in common. */
    String name() {
        return locks.number + "\0" + mode + "\0" + name;
    }

    private ThreadHold held() {
        return locks.threads.get(place());
    }

    private ThreadHold.Place place() {
        return new ThreadHold.Place(Thread.currentThread(), name);
    }

    @Override
    public String toString() {
        return "DistributedLock[" + target.named() + "]";
    }
}
