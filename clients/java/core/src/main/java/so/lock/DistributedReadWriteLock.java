package so.lock;

import java.util.concurrent.locks.ReadWriteLock;

/**
 * A read-write lock. A thread that holds the write lock may acquire the read lock too, and keeps it when it unlocks the
 * write lock. A thread that holds the read lock may acquire the write lock if there are no other readers, and otherwise
 * waits for them. If two threads do this at the same time, the second gets {@link LockException.Deadlock}.
 */
public final class DistributedReadWriteLock implements ReadWriteLock {
    private final Locks locks;
    private final String key;
    private final LockOptions options;
    private final DistributedLock write;

    DistributedReadWriteLock(Locks locks, String key, LockOptions options) {
        this.locks = locks;
        this.key = key;
        this.options = options;
        write = lock(Request.Kind.WRITE, 1);
    }

    private DistributedLock lock(Request.Kind kind, int mode) {
        return new DistributedLock(locks, new Single(locks, Request.of(kind, key, options)), "read-write\0" + key, mode);
    }

    /**
     * The lock for readers, of which many may hold it.
     *
     * @throws IllegalArgumentException with {@link LockOptions#fenced}, because only a write lock has a token; readers
     *     use an object without it
     */
    @Override
    public DistributedLock readLock() {
        return lock(Request.Kind.READ, 0);
    }

    /** The lock for one writer. */
    @Override
    public DistributedLock writeLock() {
        return write;
    }

    @Override
    public String toString() {
        return "DistributedReadWriteLock[" + write.target().named() + "]";
    }
}
