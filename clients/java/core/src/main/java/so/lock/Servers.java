package so.lock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.NANOSECONDS;

import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import java.util.stream.IntStream;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/** The servers of a RedLock, and who they are: they must be different masters that fail independently. */
final class Servers {
    private static final long TO_IDENTIFY_MS = 1_000;

    /** What a server says about itself; null where the user may not know. */
    record Identity(String run, boolean master, String node, Set<String> cluster) {
        /** Sends a command on the connection that is identified. */
        interface Sender {
            Object send(String... words) throws LinkException, ServerException;
        }

        static Identity of(Sender sender) throws LinkException, ServerException {
            Object hello = sender.send("HELLO"); // which is permitted to all
            boolean inCluster = "cluster".equals(Request.field(hello, "mode"));
            String run = line(permitted(sender, "INFO", "server"), "run_id:");
            String node = inCluster ? permitted(sender, "CLUSTER", "MYID") : null;
            Set<String> cluster = new HashSet<>();
            if (inCluster) {
                Objects.requireNonNullElse(permitted(sender, "CLUSTER", "NODES"), "").lines()
                        .forEach(one -> cluster.add(one.split(" ", 2)[0]));
            }
            return new Identity(run, "master".equals(Request.field(hello, "role")), node, cluster);
        }

        private static String permitted(Sender sender, String... words) throws LinkException, ServerException {
            try {
                return (String) sender.send(words);
            } catch (ServerException e) {
                if (e.code().equals("NOPERM")) {
                    return null;
                }
                throw e;
            }
        }

        private static String line(String text, String start) {
            return text == null ? null : text.lines()
                    .filter(one -> one.startsWith(start))
                    .map(one -> one.substring(start.length()).strip())
                    .findFirst()
                    .orElse(null);
        }

        boolean isSame(Identity other) {
            return run != null && run.equals(other.run);
        }

        boolean isOfTheSameCluster(Identity other) {
            return cluster.contains(other.node) || other.cluster.contains(node);
        }
    }

    private final List<Locks> all;
    private final Identity[] identities;
    private volatile boolean identified;

    Servers(List<Locks> all) {
        this.all = all;
        this.identities = new Identity[all.size()];
    }

    List<Locks> all() {
        return all;
    }

    int majority() {
        return all.size() / 2 + 1;
    }

    boolean isClosed() {
        return all.stream().anyMatch(one -> one.closed);
    }

    String address(int number) {
        Connections connections = all.get(number).connections;
        return connections.address(connections.knownNode(""));
    }

    /** Records who a server is; an exception if it may not be a server of this RedLock. */
    synchronized void identify(int number, Identity found) {
        identities[number] = found;
        if (!found.master) {
            throw new IllegalArgumentException("servers: " + address(number) + " is a replica");
        }
        for (int i = 0; i < identities.length; i++) {
            if (i == number || identities[i] == null) {
                continue;
            } else if (found.isSame(identities[i])) {
                throw new IllegalArgumentException("servers: " + both(i, number) + " are the same server");
            } else if (found.isOfTheSameCluster(identities[i])) {
                throw new IllegalArgumentException("servers: " + both(i, number) + " are nodes of one cluster");
            }
        }
    }

    private String both(int one, int other) {
        return address(Math.min(one, other)) + " and " + address(Math.max(one, other));
    }

    /** Identifies all servers that reply before the first use; others when they are connected. */
    void identifyAll(String key, Attempt attempt) throws InterruptedException {
        if (identified) {
            return;
        }
        long now = System.nanoTime();
        long half = (attempt.until() + Call.GRACE - now) / 2; // the rest is for the acquisition
        long longest = MILLISECONDS.toNanos(TO_IDENTIFY_MS);
        long until = now + Math.min(half, longest);
        List<CompletableFuture<Void>> asked = IntStream.range(0, all.size())
                .mapToObj(i -> CompletableFuture.runAsync(() -> ping(i, key, until), all.get(i).workers::help))
                .toList();
        for (CompletableFuture<Void> one : asked) {
            await(one, until, attempt.interruptible());
        }
        identified = half >= longest || asked.stream().allMatch(CompletableFuture::isDone);
    }

    private void ping(int number, String key, long until) {
        Call call = call(number, key);
        try {
            call.send(() -> Call.within(List.of("PING"), until), until);
        } catch (LinkException | ServerException e) {
            Locks.LOG.log(System.Logger.Level.DEBUG, address(number) + " is not identified yet", e);
        }
    }

    private static void await(CompletableFuture<Void> one, long end, boolean interruptible) throws InterruptedException {
        try {
            if (interruptible) {
                one.get(Math.max(0, end - System.nanoTime()), NANOSECONDS);
            } else {
                one.copy().completeOnTimeout(null, Math.max(0, end - System.nanoTime()), NANOSECONDS).join();
            }
        } catch (ExecutionException | CompletionException e) {
            throw e.getCause() instanceof RuntimeException known ? known : new IllegalStateException(e);
        } catch (TimeoutException e) {
            return; // it is identified when it is connected
        }
    }

    /** A call that is tried once, to a server that is identified first. */
    Call call(int number, String key) {
        return new Call(all.get(number).connections, key).once().single().identifying(found -> identify(number, found));
    }
}
