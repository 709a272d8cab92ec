package so.lock.spring.boot;

import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import so.lock.Locks;

/**
 * Creates {@link Locks} on the server, the master or the cluster of {@code spring.data.redis.*}, unless the application
 * has a bean of this type. This is for Lettuce, which is Spring Boot's default.
 */
@AutoConfiguration(after = DataRedisAutoConfiguration.class)
@ConditionalOnSingleCandidate(LettuceConnectionFactory.class)
@ConditionalOnMissingBean(Locks.class)
public final class LockSoAutoConfiguration {
    @Bean
    LettuceSource lockSoSource(LettuceConnectionFactory factory) {
        return new LettuceSource(factory);
    }

    @Bean(destroyMethod = "close")
    Locks locks(LettuceSource source) {
        return source.locks();
    }
}
