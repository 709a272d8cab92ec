package so.lock;

import java.lang.System.Logger.Level;
import java.lang.ref.WeakReference;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.Consumer;

/** The state of a {@link Hold}, which is kept until it is released, also if the program has forgotten the Hold. */
abstract class Held {
    private WeakReference<Hold> object;

    /** The object for the program, which is passed to the listener; null: no listener. */
    final Hold object(Consumer<Hold> listener) {
        Hold hold = new Hold(this, listener);
        object = new WeakReference<>(hold);
        return hold;
    }

    /** Notifies the program of the loss. */
    final void report() {
        Hold hold = object.get();
        if (hold != null && hold.listener != null) {
            locks().workers.surely(() -> report(hold));
        }
    }

    private void report(Hold hold) {
        try {
            hold.listener.accept(hold);
        } catch (RuntimeException | Error e) {
            Locks.LOG.log(Level.ERROR, named() + ": error in the callback for its loss", e);
        }
    }

    /** The program has forgotten its Hold; of a lost one, parts may be held. Runs on a thread that all Locks share. */
    final void forgotten() {
        if (!isReleased()) {
            inBackground(() -> {
                Locks.LOG.log(Level.WARNING, named() + " was never released; it is released now");
                close();
            });
        }
    }

    /** Runs a task that may block. */
    void inBackground(Runnable task) {
        locks().workers.surely(task);
    }

    /** The locks whose threads it uses. */
    abstract Locks locks();

    abstract LockName named();

    abstract String owner();

    abstract List<String> keys();

    abstract OptionalLong token();

    int permits() {
        return 1;
    }

    /** The holds that it consists of; empty: it is one. */
    List<Hold> parts() {
        return List.of();
    }

    /** Whether it is neither lost nor released, as far as has been noticed. */
    abstract boolean isHeld();

    abstract boolean isLost();

    abstract boolean isReleased();

    /** Releases all that is left. */
    abstract void release();

    /** Releases what is held of it, unless it was released; waits for a release. Nothing is thrown. */
    abstract void close();

    /** Releases some of its permits. */
    void release(int count) {
        if (count != 1) {
            throw new IllegalArgumentException("permits must be from 1 to the 1 held, not " + count);
        }
        release();
    }

    /** Renews it now; {@code leaseMs} is its lease from now on, 0: as before. */
    abstract void renew(long leaseMs);

    /** Runs a command on the server, if the lock is still held. */
    Object guard(List<String> command) {
        throw new IllegalArgumentException("guard: not for a lock on several servers or slots");
    }
}
