package so.lock.wire;

/** Opens connections with the user's settings: an address, a cluster, or a master that Sentinel monitors. */
public interface Wire extends AutoCloseable {
    /**
     * Names the node that serves a key, as {@link #open} understands it: {@code host:port} in a cluster.
     *
     * @throws LinkException if no node could be reached
     */
    String node(String key) throws LinkException;

    /**
     * Opens a new connection, which is authenticated and has the right database selected. The caller closes it.
     * With Sentinel, the address of the master is queried each time.
     *
     * @param node from {@link #node}, or the {@code host:port} of a redirection
     * @throws LinkException if it cannot be reached
     * @throws ServerException if it refuses, a wrong password for instance
     */
    Line open(String node) throws LinkException, ServerException;

    /** The address of a node for texts, {@code host:port} if it is known. */
    String where(String node);

    /** The library's exception for a connection that was not established. */
    RuntimeException failure(String text);

    /** Called when {@link #node} was wrong, because a slot has moved. */
    void refresh();

    /** Closes everything except the lines. */
    @Override
    void close();
}
