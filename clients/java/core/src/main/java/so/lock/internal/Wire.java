package so.lock.internal;

/** Opens connections with the user's settings: an address, a cluster, or a master that Sentinel monitors. */
public interface Wire extends AutoCloseable {
    /**
     * Names the node that serves a key, as {@link #open} understands it: {@code host:port} in a cluster. It does not
     * block: null if the node is not known, until {@link #refresh} has been called.
     */
    String node(String key);

    /**
     * Opens a new connection, which is authenticated and has the right database selected. The caller closes it.
     * With Sentinel, the address of the master is queried each time.
     *
     * @param node from {@link #node}, or the {@code host:port} of a redirection
     * @param timeout in ns; a library with a time limit of its own for this may ignore it
     * @throws LinkException if it cannot be reached
     * @throws ServerException if it refuses, a wrong password for instance
     */
    Line open(String node, long timeout) throws LinkException, ServerException;

    /** The address of a node for texts, {@code host:port} if it is known; of an empty one, that of the cluster. */
    default String address(String node) {
        return node;
    }

    /**
     * The name by which all programs order the servers: {@code host:port} as it is configured, for a cluster the smallest
     * of its nodes, with Sentinel the master's name. Null if it is only known after the first connection.
     */
    String name();

    /** Whether all connections lead to one server: it is no cluster, and there is no Sentinel. */
    default boolean isOneServer() {
        return true;
    }

    /** The slot of a key in a cluster; otherwise 0. */
    default int slot(String key) {
        return 0;
    }

    /** The library's exception for a connection that was not established. */
    RuntimeException failure(String text);

    /** Queries which nodes serve which keys. It may block, and is not called again before it has returned. */
    default void refresh() throws LinkException {}

    /** Closes everything except the lines. */
    @Override
    default void close() {}
}
