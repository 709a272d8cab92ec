package field;

import redis.clients.jedis.RedisClient;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.util.SafeEncoder;

/** DELAY.PUSH and BLPOP. */
final class JedisDelayed implements Delayed {
    private static final ProtocolCommand PUSH = () -> SafeEncoder.encode("DELAY.PUSH");

    private final RedisClient client;
    private final String queue;

    JedisDelayed(int port, String queue) {
        this.client = RedisClient.create("127.0.0.1", port);
        this.queue = queue;
    }

    @Override
    public void push(String value, long milliseconds) {
        client.sendCommand(PUSH, queue, "*", Long.toString(milliseconds), value);
    }

    @Override
    public String take() {
        return client.blpop(0.0, queue).getValue();
    }
}
