import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.time.Duration;
import so.lock.Hold;
import so.lock.Locks;
import so.lock.jedis.JedisLocks;
import so.lock.lettuce.LettuceLocks;

class Work {
    public static void main(String[] args) throws Exception {
        String address = System.getenv("REDIS_URL");
        try (var client = redis.clients.jedis.RedisClient.create(address); Locks locks = JedisLocks.of(client)) {
            work(locks);
        }
        RedisURI uri = RedisURI.create(address);
        try (RedisClient client = RedisClient.create(uri); Locks locks = LettuceLocks.of(client, uri)) {
            work(locks);
        }
    }

    private static void work(Locks locks) throws Exception {
        locks.setConnectTimeout(Duration.ofSeconds(60)); // a slow machine takes seconds to load Netty
        try (Hold hold = locks.lock("report").acquireHold(Duration.ofSeconds(60))) {
            System.out.println("working");
        }
    }
}
