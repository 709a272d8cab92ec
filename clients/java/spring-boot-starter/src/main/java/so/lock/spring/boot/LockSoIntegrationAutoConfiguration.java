package so.lock.spring.boot;

import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.integration.support.locks.LockRegistry;
import so.lock.Locks;
import so.lock.spring.integration.DistributedLockRegistry;

/** Creates a {@link LockRegistry} on the {@link Locks} if Spring Integration is there, unless the application has one. */
@AutoConfiguration(after = {LockSoAutoConfiguration.class, LockSoJedisAutoConfiguration.class})
@ConditionalOnClass(LockRegistry.class)
@ConditionalOnBean(Locks.class)
@EnableConfigurationProperties(LockSoProperties.class)
public final class LockSoIntegrationAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(LockRegistry.class)
    DistributedLockRegistry lockRegistry(Locks locks, LockSoProperties properties) {
        return new DistributedLockRegistry(locks, properties.registryKey(), properties.options());
    }
}
