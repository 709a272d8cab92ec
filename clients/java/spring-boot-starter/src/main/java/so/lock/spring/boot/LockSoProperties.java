package so.lock.spring.boot;

import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;
import so.lock.LockOptions;
import so.lock.shedlock.DistributedLockProvider;

/**
 * The settings of the locks; those of the connection are {@code spring.data.redis.*}.
 *
 * @param registryKey precedes the keys of the locks of the registry, with a colon
 * @param lease of the locks of the registry; it is renewed
 * @param session whether the locks of the registry are held in sessions
 * @param fenced whether the locks of the registry have fencing tokens
 * @param shedlock the settings of ShedLock's locks
 */
@ConfigurationProperties("lock-so")
public record LockSoProperties(
        @DefaultValue("spring-integration") String registryKey,
        @DefaultValue("30s") Duration lease,
        @DefaultValue("false") boolean session,
        @DefaultValue("false") boolean fenced,
        @DefaultValue ShedLock shedlock) {
    /**
     * The settings of ShedLock's locks.
     *
     * @param keyPrefix precedes the names of the locks
     * @param session {@link DistributedLockProvider#inSession}
     */
    public record ShedLock(
            @DefaultValue(DistributedLockProvider.DEFAULT_KEY_PREFIX) String keyPrefix,
            @DefaultValue("false") boolean session) {}

    /** Of the registry. */
    LockOptions options() {
        LockOptions options = LockOptions.DEFAULT.withLease(lease);
        options = session ? options.inSession() : options;
        return fenced ? options.fenced() : options;
    }
}
