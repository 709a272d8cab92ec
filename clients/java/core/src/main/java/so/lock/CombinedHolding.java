package so.lock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.NANOSECONDS;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** Several holds, which are lost if one of them is. */
final class CombinedHolding extends Held {
    private enum State {
        ACQUIRING,
        HELD,
        LOST,
        RELEASED
    }

    private final LockName named;
    private final List<Single> members;
    private final List<Hold> holds = new ArrayList<>(); // not changed once it is held
    private State state = State.ACQUIRING;
    private boolean broken; // one was lost while a later one was waited for
    private Acquisition waiting;

    /** @param members in the order in which they are acquired */
    CombinedHolding(LockName named, List<Single> members) {
        this.named = named;
        this.members = members;
    }

    /** Acquires one after the other; if one fails, those before it are released. False: not in time, or broken. */
    boolean acquire(Attempt attempt) throws InterruptedException, NotAcquiredException {
        CompletableFuture<Void> releasing = null;
        boolean complete = false;
        try {
            for (Single member : members) {
                Acquisition acquisition = member.begin(attempt);
                await(acquisition);
                Hold hold = member.locks().hold(acquisition, member.request(), attempt);
                if (hold == null) {
                    releasing = giveBack();
                    if (!isBroken()) {
                        member.fail(acquisition, attempt);
                    }
                    return false;
                }
                holds.add(hold);
                ((Holding) hold.held).whenLost(this::partLost);
            }
            complete = complete();
            return complete;
        } finally {
            if (!complete) {
                releasing = releasing == null ? giveBack() : releasing;
                long left = NANOSECONDS.toMillis(attempt.until() + Call.GRACE - System.nanoTime());
                long limit = Math.max(0, Math.min(left, Call.SHORT_MS));
                // of a copy: what is completed before it has begun would not run
                releasing.copy().completeOnTimeout(null, limit, MILLISECONDS).join();
            }
        }
    }

    private synchronized void await(Acquisition acquisition) {
        waiting = acquisition;
        if (broken) {
            acquisition.stop();
        }
    }

    private synchronized boolean complete() {
        broken |= holds.stream().anyMatch(hold -> !hold.held.isHeld() || hold.isLost());
        state = broken ? state : State.HELD;
        waiting = null;
        return !broken;
    }

    private synchronized void partLost() {
        if (state == State.HELD) {
            state = State.LOST;
            report();
        } else if (state == State.ACQUIRING) {
            broken = true;
            if (waiting != null) {
                waiting.stop();
            }
        }
    }

    /** Whether it was given up because one was lost while a later one was waited for. */
    synchronized boolean isBroken() {
        return broken;
    }

    private synchronized State change(State to) {
        State before = state;
        state = to;
        return before;
    }

    /** Releases what was acquired, in the background: the last one first. */
    private CompletableFuture<Void> giveBack() {
        change(State.RELEASED);
        return holds.isEmpty()
                ? CompletableFuture.completedFuture(null)
                : CompletableFuture.runAsync(this::close, this::inBackground);
    }

    private List<Hold> lastFirst() {
        List<Hold> reversed = new ArrayList<>(holds);
        Collections.reverse(reversed);
        return reversed;
    }

    @Override
    Locks locks() {
        return members.get(0).locks();
    }

    @Override
    LockName named() {
        return named;
    }

    @Override
    String owner() {
        return holds.get(0).owner();
    }

    @Override
    List<String> keys() {
        return members.stream().flatMap(member -> member.request().keys().stream()).toList();
    }

    @Override
    OptionalLong token() {
        return OptionalLong.empty();
    }

    @Override
    List<Hold> parts() {
        return List.copyOf(holds);
    }

    @Override
    synchronized boolean isHeld() {
        return state == State.HELD;
    }

    /** One whose Locks were closed is released, and lost for this hold. */
    @Override
    synchronized boolean isLost() {
        return state == State.LOST
                || state == State.HELD && holds.stream().anyMatch(hold -> hold.isLost() || hold.held.isReleased());
    }

    @Override
    synchronized boolean isReleased() {
        return state == State.RELEASED;
    }

    @Override
    void release() {
        if (change(State.RELEASED) == State.RELEASED) {
            throw new NotHeldException(named, Texts.RELEASED);
        }
        each(lastFirst(), Hold::release);
    }

    @Override
    void close() {
        change(State.RELEASED);
        lastFirst().forEach(hold -> hold.held.close());
    }

    @Override
    void renew(long leaseMs) {
        if (isReleased()) {
            throw new NotHeldException(named, Texts.RELEASED);
        }
        holds.forEach(hold -> ((Holding) hold.held).checkLease(leaseMs));
        each(holds, hold -> hold.held.renew(leaseMs));
    }

    /** Does it for each of them; afterwards throws the first NotHeldException, or else the first exception. */
    private static void each(List<Hold> holds, Consumer<Hold> action) {
        RuntimeException failure = null;
        for (Hold hold : holds) {
            try {
                action.accept(hold);
            } catch (RuntimeException e) {
                boolean worse = e instanceof NotHeldException && !(failure instanceof NotHeldException);
                failure = failure == null || worse ? e : failure;
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    @Override
    public String toString() {
        return "Hold" + holds;
    }
}
