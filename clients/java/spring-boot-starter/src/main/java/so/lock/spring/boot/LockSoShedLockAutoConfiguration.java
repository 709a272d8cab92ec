package so.lock.spring.boot;

import net.javacrumbs.shedlock.core.LockProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import so.lock.Locks;
import so.lock.shedlock.DistributedLockProvider;

/** Creates a {@link LockProvider} on the {@link Locks} if ShedLock is there, unless the application has one. */
@AutoConfiguration(after = {LockSoAutoConfiguration.class, LockSoJedisAutoConfiguration.class})
@ConditionalOnClass(LockProvider.class)
@ConditionalOnBean(Locks.class)
@EnableConfigurationProperties(LockSoProperties.class)
public final class LockSoShedLockAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(LockProvider.class)
    DistributedLockProvider lockProvider(Locks locks, LockSoProperties properties) {
        DistributedLockProvider provider = new DistributedLockProvider(locks, properties.shedlock().keyPrefix());
        return properties.shedlock().session() ? provider.inSession() : provider;
    }
}
