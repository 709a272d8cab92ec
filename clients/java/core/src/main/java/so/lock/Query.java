package so.lock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.List;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/**
 * Short commands for a key, which the program itself requests. They have 2 seconds.
 *
 * @param named what the commands are about
 * @param binary whether words and replies are as in {@link Texts#binary}
 */
record Query(Locks locks, LockName named, String key, boolean binary) {
    /** For words that are texts. */
    Query(Locks locks, LockName named, String key) {
        this(locks, named, key, false);
    }

    /** Sends a command, and repeats it after a lost connection. */
    Object send(List<String> words) {
        return send(new Call(locks.connections, key), words);
    }

    /** Sends a command that must not be executed twice: it is not repeated once it may have been executed. */
    Object sendOnce(List<String> words) {
        return send(new Call(locks.connections, key).once(), words);
    }

    private Object send(Call call, List<String> words) {
        if (binary) {
            call.binary();
        }
        long until = System.nanoTime() + MILLISECONDS.toNanos(Call.SHORT_MS);
        try {
            return call.send(() -> Call.within(words, until), until - Call.GRACE);
        } catch (LinkException e) {
            throw locks.failure(named, e);
        } catch (ServerException e) {
            throw LockException.of(named, e, call.address());
        }
    }
}
