package field;

import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** RDelayedQueue and RBlockingQueue, with Redisson's defaults. */
final class RedissonDelayed implements Delayed {
    private final RBlockingQueue<String> ready;
    private final RDelayedQueue<String> delayed;

    /** Without the object of the delayed queue: a consumer that uses only the list. */
    @SuppressWarnings("deprecation") // This method is to be measured.
    RedissonDelayed(int port, String queue, boolean withObject) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
        RedissonClient client = Redisson.create(config);
        ready = client.getBlockingQueue(queue);
        delayed = withObject ? client.getDelayedQueue(ready) : null;
    }

    @Override
    public void push(String value, long milliseconds) {
        delayed.offer(value, milliseconds, TimeUnit.MILLISECONDS);
    }

    @Override
    public String take() throws InterruptedException {
        return ready.take();
    }
}
