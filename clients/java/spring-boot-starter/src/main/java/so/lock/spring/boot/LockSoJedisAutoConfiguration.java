package so.lock.spring.boot;

import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import so.lock.Locks;
import so.lock.jedis.JedisLocks;

/** Creates {@link Locks} as {@link LockSoAutoConfiguration} does, if {@code spring.data.redis.*} selects Jedis. */
@AutoConfiguration(after = DataRedisAutoConfiguration.class)
@ConditionalOnClass(JedisLocks.class)
@ConditionalOnSingleCandidate(JedisConnectionFactory.class)
@ConditionalOnMissingBean(Locks.class)
public final class LockSoJedisAutoConfiguration {
    @Bean(destroyMethod = "close")
    Locks locks(JedisConnectionFactory factory) {
        return JedisSource.locks(factory);
    }
}
