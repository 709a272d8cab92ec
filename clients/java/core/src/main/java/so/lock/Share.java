package so.lock;

import static java.util.concurrent.TimeUnit.NANOSECONDS;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/**
 * The requests of one acquisition to one server of a RedLock. Each is sent when the one before has its reply, or has lost
 * its connection: so a server that is late executes the release after the request.
 */
final class Share {
    private static final Answer NOTHING = new Answer(null, null, 0);

    /**
     * A reply, or why there is none.
     *
     * @param sent when the command was sent, by nanoTime
     */
    record Answer(Object value, Exception failure, long sent) {
        boolean isGranted() {
            return failure == null && value != null;
        }

        boolean isRefused() {
            return failure instanceof ServerException e && !e.isTransient();
        }

        boolean isReply() {
            return failure == null || isRefused();
        }

        boolean isNotHeld() {
            return failure instanceof ServerException e && e.code().equals("NOTHELD");
        }
    }

    private final Servers servers;
    private final int number;
    private final Request request;
    private CompletableFuture<?> last = CompletableFuture.completedFuture(null);
    private final AtomicInteger renewals = new AtomicInteger();
    private volatile boolean mayHold; // only the tasks set it, one after the other
    private long sent; // when the last command was, by nanoTime; only the tasks use it

    private Share(Servers servers, int number, Request request) {
        this.servers = servers;
        this.number = number;
        this.request = request;
    }

    /** One for each server. */
    static List<Share> of(Servers servers, Request request) {
        return IntStream.range(0, servers.all().size()).mapToObj(i -> new Share(servers, i, request)).toList();
    }

    private synchronized <T> CompletableFuture<T> then(Supplier<T> task) {
        CompletableFuture<T> next = last.handleAsync((value, failure) -> task.get(), locks().workers::surely);
        last = next;
        return next;
    }

    private Locks locks() {
        return servers.all().get(number);
    }

    /** Requests the lock, if that is still wanted when its turn has come. */
    CompletableFuture<Answer> acquire(String owner, long leaseMs, Supplier<Boolean> wanted) {
        return then(() -> wanted.get() ? acquireNow(owner, leaseMs, wanted) : NOTHING);
    }

    private Answer acquireNow(String owner, long leaseMs, Supplier<Boolean> wanted) {
        boolean before = mayHold;
        Answer answer = send(request.withLease(leaseMs).acquire(owner, -1, false), leaseMs, wanted);
        if (!answer.isGranted() && !(answer.failure() instanceof RuntimeException)) {
            mayHold = before; // the server has refused it
        }
        return answer;
    }

    /**
     * Renews it, unless a later renewal is behind it when its turn has come. If the server has lost it, it is requested
     * again, which the answer does not show.
     */
    CompletableFuture<Answer> renew(String owner, long leaseMs, Supplier<Boolean> wanted) {
        int renewal = renewals.incrementAndGet();
        return then(() -> {
            if (!wanted.get() || renewal != renewals.get()) {
                return NOTHING;
            }
            Answer answer = send(request.renew(owner, Request.px(leaseMs)), leaseMs, null);
            if (answer.isNotHeld() && wanted.get()) { // the hold may have ended meanwhile
                acquireNow(owner, leaseMs, wanted);
            }
            return answer;
        });
    }

    /** Whether a grant may have been sent to it that was not released. */
    boolean mayHold() {
        return mayHold;
    }

    /**
     * Releases what the server may have granted. If it cannot be reached, the answer says so at once, and the release is
     * repeated until the lease has passed.
     */
    CompletableFuture<Answer> release(String owner, long leaseMs) {
        return then(() -> {
            if (!mayHold) {
                return NOTHING;
            }
            mayHold = false;
            long until = System.nanoTime() + MajorityHolding.ns(leaseMs);
            Answer answer = releaseNow(owner, until, call().single());
            if (!answer.isReply()) {
                then(() -> releaseNow(owner, until, call()));
            }
            return answer;
        });
    }

    private Call call() {
        return new Call(locks().connections, request.key()).checking();
    }

    private Answer releaseNow(String owner, long until, Call call) {
        try {
            return new Answer(call.send(() -> new Call.Command(request.release(owner, 1)), until), null, 0);
        } catch (LinkException | ServerException e) {
            Answer answer = new Answer(null, e, 0);
            // if it was sent again because its reply was lost, the first one was executed
            return answer.isNotHeld() && call.isDoubtful() ? NOTHING : answer;
        }
    }

    /**
     * Sends a command once. A connection that has no reply is given up after the time for connecting.
     *
     * @param wanted null if the command grants nothing; otherwise it is only sent if this is still true when there is a
     *               connection. It becomes false before {@link #mayHold} is asked, so that one of the two knows the other
     */
    private Answer send(List<String> words, long leaseMs, Supplier<Boolean> wanted) {
        Call call = servers.call(number, request.key());
        long patienceMs = NANOSECONDS.toMillis(locks().connections.connectTimeout);
        long until = System.nanoTime() + MajorityHolding.replyTime(leaseMs);
        try {
            Object reply = call.send(() -> {
                sent = System.nanoTime();
                if (wanted != null) {
                    boolean before = mayHold;
                    mayHold = true;
                    if (!wanted.get()) {
                        mayHold = before;
                        call.stop();
                    }
                }
                return new Call.Command(words, patienceMs, false);
            }, until);
            return new Answer(reply, null, sent);
        } catch (LinkException e) {
            return new Answer(null, locks().failure(request.named(), e), sent);
        } catch (ServerException | IllegalArgumentException e) {
            return new Answer(null, e, sent);
        }
    }
}
