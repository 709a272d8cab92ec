package so.lock.lettuce;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import so.lock.Locks;

/**
 * Locks on Lettuce. They open connections of their own, with the options of the user's client, but neither its
 * time-outs nor its reconnecting: both leave waits at the server of which nobody knows. Its threads are shared; close
 * the locks before the client.
 */
public final class LettuceLocks {
    private LettuceLocks() {}

    /**
     * On one server, or on a master that Sentinel names.
     *
     * @param uri from which the client was made: Lettuce does not tell it
     */
    public static Locks of(RedisClient client, RedisURI uri) {
        return new Locks(new LettuceWire(client.getResources(), client.getOptions(), uri));
    }

    /** On a cluster. The client's view of the cluster is used, and refreshed. */
    public static Locks of(RedisClusterClient client) {
        return new Locks(new LettuceWire.Cluster(client, client.getOptions()));
    }
}
