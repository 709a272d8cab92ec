package so.lock;

import static java.util.concurrent.TimeUnit.NANOSECONDS;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Function;
import java.util.stream.Stream;

/** A lock on a majority of independent servers. Waiters try again at random intervals. */
record Majority(Servers servers, Request request) implements Target {
    private static final long SHORTEST_PAUSE = 20_000_000; // ns
    private static final long LONGEST_PAUSE = 200_000_000; // ns

    @Override
    public LockName named() {
        return request.named();
    }

    @Override
    public boolean fenced() {
        return true;
    }

    @Override
    public Hold acquire(Attempt attempt) throws InterruptedException, NotAcquiredException {
        servers.identifyAll(request.key(), attempt);
        List<Share> shares = Share.of(servers, request);
        long replied = System.nanoTime();
        while (true) {
            if (attempt.interruptible() && Thread.interrupted()) {
                throw new InterruptedException();
            } else if (servers.isClosed()) {
                throw new LockException.Closed(named());
            }
            MajorityHolding holding = new MajorityHolding(servers, request.withoutListener(), shares);
            Hold hold = holding.object(request.options().onLost);
            Round round = holding.acquire(attempt);
            if (round == null) {
                return hold;
            }
            round.throwRefusal(request.named(), servers);
            replied = round.hasMajority() ? System.nanoTime() : replied;
            RuntimeException failure = round.hasMajority() ? null : round.failure(servers);
            long silent = System.nanoTime() - replied;
            if (failure != null && (attempt.waitMs() == 0 || silent > servers.all().get(0).connections.connectTimeout)) {
                throw failure;
            } else if (attempt.isOver()) {
                if (attempt.explained()) {
                    List<String> holders = failure == null ? holders(round, attempt.until() + Acquisition.NAMED) : List.of();
                    throw new NotAcquiredException(request, attempt.waitMs(), holders, failure, "");
                } else if (failure != null) {
                    throw failure;
                }
                return null;
            }
            pause(attempt);
        }
    }

    /** The owners on the servers that have refused it, as far as these reply in time. */
    private List<String> holders(Round round, long end) {
        return begin(round.heldByOthers().mapToObj(servers.all()::get), one -> Acquisition.holders(one.locks(), request.key(), end))
                .stream()
                .flatMap(CompletableFuture::join)
                .distinct()
                .toList();
    }

    /** So that two that have blocked each other do not collide again. */
    static void pause(Attempt attempt) throws InterruptedException {
        long pause = ThreadLocalRandom.current().nextLong(SHORTEST_PAUSE, LONGEST_PAUSE);
        long left = Math.min(pause, attempt.until() - System.nanoTime());
        if (attempt.interruptible()) {
            NANOSECONDS.sleep(left);
        } else { // join() waits also on a thread that is interrupted
            new CompletableFuture<Void>().completeOnTimeout(null, left, NANOSECONDS).join();
        }
    }

    /** Whether a majority of the servers says so. */
    @Override
    public boolean isLocked() {
        return each(Single::isLocked).stream().filter(Boolean::booleanValue).count() >= servers.majority();
    }

    @Override
    public LockInfo info() {
        return LockInfo.merged(each(Single::info).stream());
    }

    @Override
    public boolean force() {
        return each(Single::force).contains(true);
    }

    /** The results of all servers at once; an exception if there is no majority. */
    private <T> List<T> each(Function<Single, T> action) {
        List<CompletableFuture<T>> asked = begin(servers.all().stream(), action);
        List<T> results = new ArrayList<>();
        RuntimeException failure = null;
        for (CompletableFuture<T> one : asked) {
            try {
                results.add(one.join());
            } catch (CompletionException e) {
                failure = e.getCause() instanceof RuntimeException known ? known : e;
            }
        }
        if (failure != null && results.size() < servers.majority()) {
            throw failure;
        }
        return results;
    }

    private <T> List<CompletableFuture<T>> begin(Stream<Locks> some, Function<Single, T> action) {
        return some.map(one -> CompletableFuture.supplyAsync(() -> action.apply(new Single(one, request)), one.workers::help))
                .toList();
    }
}
