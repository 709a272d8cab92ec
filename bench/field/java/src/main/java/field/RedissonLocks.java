package field;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** RLock, the fair lock, the read-write lock, RSemaphore and RCountDownLatch, with Redisson's defaults. */
final class RedissonLocks implements Library {
    private final RedissonClient client;

    /** Each waiter of a fair lock has a subscription of its own, five on a connection; the default allows 250. */
    RedissonLocks(int port, int workers) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port)
                .setSubscriptionConnectionPoolSize(Math.max(50, workers / 5 + 10));
        client = Redisson.create(config);
    }

    @Override
    public Worker worker(String kind, int limit) {
        return switch (kind) {
            case "semaphore" -> new Permits(limit);
            case "latch" -> new Latch();
            default -> new Locks(kind);
        };
    }

    @Override
    public void closeLatch(String name) {
        client.getCountDownLatch(name).trySetCount(1);
    }

    @Override
    public void openLatch(String name) {
        client.getCountDownLatch(name).countDown();
    }

    private final class Locks implements Worker {
        private final String kind;
        private Lock held;

        Locks(String kind) {
            this.kind = kind;
        }

        private Lock named(String name) {
            return switch (kind) {
                case "fair" -> client.getFairLock(name);
                case "read" -> client.getReadWriteLock(name).readLock();
                case "write" -> client.getReadWriteLock(name).writeLock();
                default -> client.getLock(name);
            };
        }

        @Override
        public void acquire(String name) {
            held = named(name);
            held.lock();
        }

        @Override
        public boolean acquireWithin(String name, long milliseconds) throws InterruptedException {
            held = named(name);
            return held.tryLock(milliseconds, TimeUnit.MILLISECONDS);
        }

        @Override
        public void release(String name) {
            held.unlock();
        }
    }

    private final class Permits implements Worker {
        private final int limit;
        private RSemaphore semaphore;

        Permits(int limit) {
            this.limit = limit;
        }

        private RSemaphore named(String name) {
            if (semaphore == null) {
                semaphore = client.getSemaphore(name);
                semaphore.trySetPermits(limit);
            }
            return semaphore;
        }

        @Override
        public void acquire(String name) throws InterruptedException {
            named(name).acquire();
        }

        @Override
        public boolean acquireWithin(String name, long milliseconds) throws InterruptedException {
            return named(name).tryAcquire(java.time.Duration.ofMillis(milliseconds));
        }

        @Override
        public void release(String name) {
            semaphore.release();
        }
    }

    private final class Latch implements Worker {
        @Override
        public void acquire(String name) throws InterruptedException {
            client.getCountDownLatch(name).await();
        }

        @Override
        public boolean acquireWithin(String name, long milliseconds) throws InterruptedException {
            return client.getCountDownLatch(name).await(milliseconds, TimeUnit.MILLISECONDS);
        }

        @Override
        public void release(String name) {
            throw new UnsupportedOperationException("a latch is not released");
        }
    }
}
