package so.lock.internal;

import java.util.Set;

/** The server's reply was an error. */
public final class ServerException extends Exception {
    private static final long serialVersionUID = 1;
    private static final Set<String> FAILED =
            Set.of("READONLY", "UNBLOCKED", "LOADING", "CLUSTERDOWN", "MASTERDOWN");
    private static final Set<String> MOVING = Set.of("TRYAGAIN", "MOVED", "ASK");

    /** @param text the whole error, its code first */
    public ServerException(String text) {
        super(text);
    }

    /** The first word. */
    public String code() {
        return getMessage().split(" ", 2)[0];
    }

    /** Whether the error is transient: the same request may succeed a moment later, here or on another node. */
    public boolean isTransient() {
        return nodeHasFailed() || MOVING.contains(code()) || getMessage().startsWith("ERR max number of clients");
    }

    /** Whether the node cannot serve any key for now: another one may be the master. */
    public boolean nodeHasFailed() {
        return FAILED.contains(code());
    }

    /** The {@code host:port} of MOVED and ASK; null if there is none, or no host in it. */
    public String target() {
        String[] words = getMessage().split(" ");
        boolean redirects = code().equals("MOVED") || code().equals("ASK");
        return redirects && words.length > 2 && words[2].lastIndexOf(':') > 0 ? words[2] : null;
    }
}
