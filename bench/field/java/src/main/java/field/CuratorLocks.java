package field;

import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** ZooKeeper by Curator's recipes, with Curator's default session. */
final class CuratorLocks implements Library {
    private final CuratorFramework client;

    CuratorLocks(int port) throws InterruptedException {
        client = CuratorFrameworkFactory.newClient("127.0.0.1:" + port, new ExponentialBackoffRetry(1000, 3));
        client.start();
        client.blockUntilConnected();
    }

    @Override
    public Worker worker(String kind, int limit) {
        return kind.equals("semaphore") ? new Permits(limit) : new Locks(kind);
    }

    private final class Locks implements Worker {
        private final String kind;
        private InterProcessMutex held;

        Locks(String kind) {
            this.kind = kind;
        }

        private InterProcessMutex named(String name) {
            String path = "/" + name;
            return switch (kind) {
                case "read" -> new InterProcessReadWriteLock(client, path).readLock();
                case "write" -> new InterProcessReadWriteLock(client, path).writeLock();
                default -> new InterProcessMutex(client, path);
            };
        }

        @Override
        public void acquire(String name) throws Exception {
            held = named(name);
            held.acquire();
        }

        @Override
        public boolean acquireWithin(String name, long milliseconds) throws Exception {
            held = named(name);
            return held.acquire(milliseconds, TimeUnit.MILLISECONDS);
        }

        @Override
        public void release(String name) throws Exception {
            held.release();
        }
    }

    private final class Permits implements Worker {
        private final int limit;
        private InterProcessSemaphoreV2 semaphore;
        private Lease held;

        Permits(int limit) {
            this.limit = limit;
        }

        @Override
        public void acquire(String name) throws Exception {
            if (semaphore == null) {
                semaphore = new InterProcessSemaphoreV2(client, "/" + name, limit);
            }
            held = semaphore.acquire();
        }

        @Override
        public boolean acquireWithin(String name, long milliseconds) {
            throw new UnsupportedOperationException("not offered");
        }

        @Override
        public void release(String name) {
            semaphore.returnLease(held);
        }
    }
}
