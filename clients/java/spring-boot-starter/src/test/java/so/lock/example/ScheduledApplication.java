package so.lock.example;

import net.javacrumbs.shedlock.spring.annotation.EnableSchedulerLock;
import net.javacrumbs.shedlock.spring.annotation.SchedulerLock;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;
import so.lock.Hold;
import so.lock.shedlock.DistributedLockProvider;

/** An application as a user writes it: no bean for locks. It runs in processes of its own. */
@SpringBootApplication
@EnableScheduling
@EnableSchedulerLock(defaultLockAtMostFor = "10m")
public class ScheduledApplication {
    public static final String EVENTS = "events";
    /** While this key exists, the task does not end. */
    public static final String BUSY = "busy";
    /** The process of the task that does not end. */
    public static final String STUCK = "stuck";

    private final StringRedisTemplate redis;
    private final DistributedLockProvider provider;

    ScheduledApplication(StringRedisTemplate redis, DistributedLockProvider provider) {
        this.redis = redis;
        this.provider = provider;
    }

    public static void main(String[] arguments) {
        SpringApplication.run(ScheduledApplication.class, arguments);
    }

    /** Each run adds two events: {@code begin PID TOKEN}, {@code end PID TOKEN}. */
    @Scheduled(fixedDelay = 20)
    @SchedulerLock(name = "report")
    public void report() throws InterruptedException {
        Hold hold = provider.currentHold("report").orElseThrow();
        String run = " " + ProcessHandle.current().pid() + " " + hold.token().orElseThrow();
        redis.opsForList().rightPush(EVENTS, "begin" + run);
        while (redis.hasKey(BUSY)) {
            redis.opsForValue().set(STUCK, Long.toString(ProcessHandle.current().pid()));
            Thread.sleep(5);
        }
        redis.opsForList().rightPush(EVENTS, "end" + run);
    }
}
