package so.lock;

import java.util.concurrent.locks.ReadWriteLock;

/**
 * A read-write lock. A thread that holds the write lock may acquire the read lock too, and keeps it when it unlocks the
 * write lock. A thread that holds the read lock may acquire the write lock if there are no other readers, and otherwise
 * waits for them. If two threads do this at the same time, the second gets {@link LockException.Deadlock}.
 */
public final class DistributedReadWriteLock implements ReadWriteLock {
    private final DistributedLock read;
    private final DistributedLock write;

    DistributedReadWriteLock(Locks locks, String key, LockOptions options) {
        LockOptions reading = options.with(copy -> copy.fenced = false);
        String name = "read-write\0" + key;
        read = new DistributedLock(locks, new Single(locks, Request.of(Request.Kind.READ, key, reading)), name, 0);
        write = new DistributedLock(locks, new Single(locks, Request.of(Request.Kind.WRITE, key, options)), name, 1);
    }

    /** The lock for readers, of which many may hold it. It has no fencing token. */
    @Override
    public DistributedLock readLock() {
        return read;
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
