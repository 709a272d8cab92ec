package so.lock;

import java.util.concurrent.locks.ReadWriteLock;

/**
 * A read-write lock. A thread that writes may read too, and goes on reading when it unlocks the write; one that reads
 * may write if nobody else reads, and otherwise waits for them. Two that do so at once: the second gets
 * {@link LockException.Deadlock}.
 */
public final class DistributedReadWriteLock implements ReadWriteLock {
    private final DistributedLock read;
    private final DistributedLock write;

    DistributedReadWriteLock(Locks locks, String key, LockOptions options) {
        LockOptions reading = new LockOptions(options.lease(), options.session(), false, options.renew(),
                options.replicas(), options.replicasWait(), options.onLost());
        String name = "read-write\0" + key;
        read = new DistributedLock(locks, Request.of(Request.Kind.READ, key, reading), name, 0);
        write = new DistributedLock(locks, Request.of(Request.Kind.WRITE, key, options), name, 1);
    }

    @Override
    public DistributedLock readLock() {
        return read;
    }

    @Override
    public DistributedLock writeLock() {
        return write;
    }
}
