package so.lock.wire;

/** Opens connections with one user's settings: an address, a cluster, or a master that Sentinel knows. */
public interface Wire extends AutoCloseable {
    /**
     * Names the node that serves a key, as {@link #open} understands it: {@code host:port} in a cluster.
     *
     * @throws LinkException if no node could be asked
     */
    String node(String key) throws LinkException;

    /**
     * Opens a connection of its own, logged in and in the right database. The caller closes it.
     * Where Sentinel is asked, it is asked each time.
     *
     * @param node from {@link #node}, or the {@code host:port} of a redirection
     * @throws LinkException if it cannot be reached
     * @throws ServerException if it refuses, a wrong password for instance
     */
    Line open(String node) throws LinkException, ServerException;

    /** Says that {@link #node} was wrong: a slot has moved. */
    void refresh();

    /** Closes what is not a line. */
    @Override
    void close();
}
