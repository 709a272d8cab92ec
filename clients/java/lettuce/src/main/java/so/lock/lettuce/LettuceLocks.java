package so.lock.lettuce;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import so.lock.Locks;

/**
 * Locks on Lettuce. They open connections of their own, with the options of the user's client, but without its
 * time-outs and its automatic reconnection: both leave waits on the server that no client knows of. The client's
 * threads are shared, so close the locks before the client.
 */
public final class LettuceLocks {
    private LettuceLocks() {}

    /**
     * On one server, or on a master that Sentinel monitors.
     *
     * @param uri the one from which the client was created, because Lettuce does not expose it
     */
    public static Locks of(RedisClient client, RedisURI uri) {
        return new Locks(new LettuceWire(client.getResources(), client.getOptions(), uri));
    }

    /** On a cluster. The client's view of the cluster is used, and refreshed. */
    public static Locks of(RedisClusterClient client) {
        return new Locks(new LettuceWire.Cluster(client, client.getOptions()));
    }
}
