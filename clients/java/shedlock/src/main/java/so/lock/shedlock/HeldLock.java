package so.lock.shedlock;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import so.lock.Hold;
import so.lock.LockFailure;
import so.lock.NotHeldException;

/** A lock that a {@link DistributedLockProvider} has acquired. */
final class HeldLock extends AbstractSimpleLock {
    private static final Logger LOG = LoggerFactory.getLogger(DistributedLockProvider.class);
    private static final long PAUSE_MS = 100;

    private final DistributedLockProvider provider;
    private final Hold hold;
    /** Of nanoTime, because the wall clock may be set. */
    private final long start = System.nanoTime();

    HeldLock(DistributedLockProvider provider, LockConfiguration configuration, Hold hold) {
        super(configuration);
        this.provider = provider;
        this.hold = hold;
    }

    /** A loss is no error here, because it would replace that of the task. */
    @Override
    protected void doUnlock() {
        try (hold) { // released also if it cannot be kept, so that it is not renewed for ever
            long passed = System.nanoTime() - start;
            Duration left = lockConfiguration.getLockAtLeastFor().minusNanos(passed);
            if (left.toMillis() > 0) {
                leave(left);
            }
        } catch (NotHeldException e) {
            LOG.warn("Lock {} was lost before its task ended, lockAtMostFor {}: {}",
                    lockConfiguration.getName(), lockConfiguration.getLockAtMostFor(), e.getMessage());
        } finally {
            provider.forget(lockConfiguration.getName(), hold);
        }
    }

    @Override
    protected Optional<SimpleLock> doExtend(LockConfiguration configuration) {
        try {
            if (provider.inSessions()) {
                hold.renew();
            } else {
                hold.renew(DistributedLockProvider.lease(configuration.getLockAtMostFor()));
            }
            return Optional.of(new HeldLock(provider, configuration, hold));
        } catch (NotHeldException e) {
            provider.forget(lockConfiguration.getName(), hold);
            return Optional.empty();
        }
    }

    /**
     * Adds a hold of the same owner that only its lease ends. So the lock stays held after this hold was released, also
     * if {@code Locks} are closed or the process ends. It does no harm to repeat it, because no release depends on how
     * many holds were added.
     */
    private void leave(Duration left) {
        String lease = Long.toString(left.toMillis());
        while (true) {
            try {
                hold.guard("LOCK.ACQUIRE", hold.key(), hold.owner(), "PX", lease);
                hold.guard("LOCK.RENEW", hold.key(), hold.owner(), "PX", lease); // shortens it, and unbinds a session
                return;
            } catch (RuntimeException e) {
                if (e instanceof LockFailure || hold.isLost()) {
                    throw e;
                }
                LOG.debug("Lock {}: trying again to keep it for lockAtLeastFor", lockConfiguration.getName(), e);
                // join() waits also on a thread that is interrupted
                new CompletableFuture<Void>().completeOnTimeout(null, PAUSE_MS, TimeUnit.MILLISECONDS).join();
            }
        }
    }
}
