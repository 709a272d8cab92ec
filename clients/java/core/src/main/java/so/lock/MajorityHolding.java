package so.lock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;

/**
 * A hold on a majority of servers. It is lost when fewer than a majority of them have held it all the time, or when the
 * time that a majority has confirmed has passed.
 */
final class MajorityHolding extends Held implements Locks.Work {
    private static final long SHORTEST_REPLY = 20_000_000; // ns
    private static final long LONGEST_REPLY = 1_000_000_000; // ns
    private static final long ROUNDING = 2_000_000; // ns; leases end at a whole millisecond

    private enum State {
        ACQUIRING,
        HELD,
        LOST,
        RELEASED
    }

    private final Servers servers;
    private final Request request;
    private final List<Share> shares;
    private final String owner = Locks.newOwner();
    private final boolean[] counted; // servers that have held it all the time
    private final long[] regranted; // when one that does not count may have granted it, by nanoTime
    private final ReentrantLock sending = new ReentrantLock();
    private long token;
    private long leaseMs;
    private long end; // by nanoTime
    private long renewal; // by nanoTime
    private boolean renewing;
    private State state = State.ACQUIRING;
    private String why = Texts.RELEASED;
    private Thread thread;
    private Clock.Entry tick;

    MajorityHolding(Servers servers, Request request, List<Share> shares) {
        this.servers = servers;
        this.request = request;
        this.shares = shares;
        this.counted = new boolean[shares.size()];
        this.regranted = new long[shares.size()];
        Arrays.fill(regranted, System.nanoTime() + Call.NO_LIMIT); // not yet
        this.leaseMs = request.leaseMs();
    }

    static long ns(long ms) {
        return Math.min(MILLISECONDS.toNanos(ms), Call.NO_LIMIT);
    }

    /** How long a server has for its reply. */
    static long replyTime(long leaseMs) {
        return Math.max(SHORTEST_REPLY, Math.min(ns(leaseMs) / 20, LONGEST_REPLY));
    }

    /** How long a lease lasts that was requested at time 0, by a clock that runs 1 % slower than a server's. */
    private static long usable(long leaseMs) {
        return ns(leaseMs) - ns(leaseMs) / 100 - ROUNDING;
    }

    /** One round. Null if it is held; otherwise it is released on all servers, in the background. */
    Round acquire(Attempt attempt) throws InterruptedException {
        Round round = new Round(shares.size());
        boolean held = false;
        try {
            for (int i = 0; i < shares.size(); i++) {
                round.expect(i, shares.get(i).acquire(owner, leaseMs, this::isWanted), this::granted);
            }
            long until = round.began + Math.min(replyTime(leaseMs), attempt.until() + Call.GRACE - round.began);
            if (attempt.interruptible()) {
                round.awaitInterruptibly(round::isDecided, until);
            } else {
                round.await(round::isDecided, until);
            }
            held = start(round, attempt.thread());
        } finally {
            if (!held) {
                giveBack(finish());
            }
        }
        return held ? null : round;
    }

    /**
     * A grant that is late counts too, from the next renewal on, if it was requested in time. One that was requested later
     * counts as that of a server that had lost it, because another owner may have had a majority before.
     */
    private synchronized void granted(Round round, int number, Share.Answer answer) {
        boolean inTime = answer.sent() - round.began <= replyTime(request.leaseMs());
        if (answer.isGranted() && inTime && state != State.LOST) {
            counted[number] = true;
            token = state == State.ACQUIRING ? Math.max(token, (Long) answer.value()) : token;
        } else {
            regranted[number] = System.nanoTime();
        }
    }

    private synchronized boolean start(Round round, Thread owning) {
        long until = round.began + usable(leaseMs);
        servers.all().forEach(one -> one.running.add(this)); // before the check, so that close() releases it
        if (count() < servers.majority() || System.nanoTime() - until >= 0 || servers.isClosed()) {
            return false;
        }
        state = State.HELD;
        thread = owning;
        confirmed(round);
        schedule();
        return true;
    }

    private void confirmed(Round round) {
        round.successful = true;
        end = round.began + usable(leaseMs);
        renewal = round.began + ns(leaseMs) / 3;
    }

    private int count() {
        return (int) IntStream.range(0, counted.length).filter(i -> counted[i]).count();
    }

    private synchronized boolean isWanted() {
        return state == State.ACQUIRING || state == State.HELD;
    }

    private synchronized void schedule() {
        Clock clock = locks().workers.clock;
        clock.cancel(tick);
        if (state == State.HELD) {
            tick = clock.at(renews() && renewal - end < 0 ? renewal : end, this::tick);
        }
    }

    private boolean renews() {
        return request.options().renew && !renewing && isOwned();
    }

    /** Whether its thread is alive. */
    private boolean isOwned() {
        return thread == null || thread.isAlive();
    }

    /** Runs on the thread of the clock, so it must not block. */
    private synchronized void tick() {
        long now = System.nanoTime();
        if (now - end >= 0) {
            lose(Holding.EXPIRED);
            return;
        }
        if (renews() && now - renewal >= 0) {
            renewing = true;
            inBackground(this::renew);
        }
        schedule();
    }

    private void renew() {
        Round round = round(0);
        synchronized (this) {
            renewing = false;
            if (!round.successful) {
                renewal = System.nanoTime() + ns(leaseMs) / 10;
            }
            schedule();
        }
    }

    /** Renews it on all servers; {@code newLeaseMs} 0: with the same lease. */
    private Round round(long newLeaseMs) {
        sending.lock();
        try {
            Round round = new Round(shares.size());
            long ms = begin(round, newLeaseMs);
            for (int i = 0; i < shares.size(); i++) {
                round.expect(i, shares.get(i).renew(owner, ms, this::isWanted), this::renewed);
            }
            round.await(() -> renewed(round) >= servers.majority(), round.began + replyTime(ms));
            finish(round, ms);
            return round;
        } finally {
            sending.unlock();
        }
    }

    /** A shorter lease counts as soon as it is sent. */
    private synchronized long begin(Round round, long newLeaseMs) {
        if (newLeaseMs > 0 && newLeaseMs < leaseMs) {
            leaseMs = newLeaseMs;
            end = round.began + Math.min(end - round.began, usable(leaseMs));
            renewal = round.began + Math.min(renewal - round.began, ns(leaseMs) / 3);
            schedule();
        }
        return newLeaseMs > 0 ? newLeaseMs : leaseMs;
    }

    private synchronized void finish(Round round, long ms) {
        if (state == State.HELD && renewed(round) >= servers.majority()
                && System.nanoTime() - round.began < usable(ms)) {
            leaseMs = ms;
            confirmed(round);
            IntStream.range(0, counted.length).forEach(i -> promote(round, i));
            schedule();
        }
    }

    /** How many servers that have held it all the time have renewed it. */
    private synchronized long renewed(Round round) {
        return IntStream.range(0, counted.length)
                .filter(i -> counted[i] && round.answer(i) != null && round.answer(i).isGranted())
                .count();
    }

    /**
     * A server that had lost it, or was late, and renews what it has granted counts after a round with a majority without
     * it, which began after that grant.
     */
    private void promote(Round round, int number) {
        counted[number] |= round.began - regranted[number] > 0
                && round.answer(number) != null && round.answer(number).isGranted();
    }

    private synchronized void renewed(Round round, int number, Share.Answer answer) {
        if (answer.isNotHeld() || answer.failure() instanceof IllegalArgumentException) {
            counted[number] = false;
            regranted[number] = System.nanoTime();
            if (count() < servers.majority()) {
                lose(Holding.REPORTED);
            }
        } else if (round.successful) {
            promote(round, number);
        }
    }

    private synchronized void lose(String reason) {
        if (state == State.HELD) {
            state = State.LOST;
            why = reason;
            forget();
            report();
        }
    }

    private void forget() {
        locks().workers.clock.cancel(tick);
        servers.all().forEach(one -> one.running.remove(this));
        if (!isOwned()) {
            servers.all().forEach(one -> one.forget(thread));
        }
    }

    /** From now on nothing is requested for it any more; the lease that a server may still have granted. */
    private synchronized long finish() {
        state = State.RELEASED;
        forget();
        return leaseMs;
    }

    private List<CompletableFuture<Share.Answer>> giveBack(long ms) {
        return shares.stream().map(share -> share.release(owner, ms)).toList();
    }

    /** Releases it, and waits for the replies, as long as a server has for one; not where nothing was requested. */
    private Round giveBackNow() {
        Round round = new Round(shares.size());
        long ms = finish();
        List<Share> awaited = shares.stream().filter(Share::mayHold).toList(); // the release changes that
        List<CompletableFuture<Share.Answer>> answers = giveBack(ms);
        for (int i = 0; i < answers.size(); i++) {
            round.expect(i, answers.get(i), (same, number, answer) -> {});
        }
        BooleanSupplier done = () -> IntStream.range(0, answers.size())
                .allMatch(i -> round.answer(i) != null || !awaited.contains(shares.get(i)));
        round.await(done, round.began + replyTime(request.leaseMs()));
        return round;
    }

    /** As if it was released, because the Locks of one server are closed. */
    @Override
    public CompletableFuture<Void> abandon() {
        return CompletableFuture.runAsync(this::close, this::inBackground);
    }

    @Override
    void close() {
        if (!isReleased()) {
            giveBackNow();
        }
    }

    @Override
    void release() {
        NotHeldException lost = lost();
        if (isReleased()) {
            throw lost;
        }
        Round round = giveBackNow();
        if (lost != null) {
            throw lost;
        }
        long left = IntStream.range(0, counted.length)
                .filter(i -> counted[i] && (round.answer(i) == null || !round.answer(i).isNotHeld()))
                .count();
        if (left < servers.majority()) {
            throw new NotHeldException(request.named(), Holding.REPORTED);
        }
    }

    /** The exception for what is not held any more; null if it is held. */
    private synchronized NotHeldException lost() {
        if (state == State.HELD && System.nanoTime() - end >= 0) {
            lose(Holding.EXPIRED); // if the clock has not done so yet
        }
        String reason = state == State.LOST ? why : Texts.RELEASED;
        return state == State.HELD ? null : new NotHeldException(request.named(), reason);
    }

    @Override
    void renew(long newLeaseMs) {
        NotHeldException before = lost();
        if (before != null) {
            throw before;
        }
        Round round = round(newLeaseMs);
        NotHeldException after = lost();
        if (after != null) {
            throw after;
        } else if (!round.successful) {
            round.throwRefusal(request.named(), servers);
            throw round.failure(servers);
        }
    }

    @Override
    Locks locks() {
        return servers.all().get(0);
    }

    @Override
    LockName named() {
        return request.named();
    }

    @Override
    String owner() {
        return owner;
    }

    @Override
    List<String> keys() {
        return request.keys();
    }

    @Override
    synchronized OptionalLong token() {
        return OptionalLong.of(token);
    }

    @Override
    synchronized boolean isHeld() {
        return state == State.HELD;
    }

    @Override
    synchronized boolean isLost() {
        return state == State.LOST || state == State.HELD && System.nanoTime() - end >= 0;
    }

    @Override
    synchronized boolean isReleased() {
        return state == State.RELEASED;
    }

    @Override
    public String toString() {
        return "Hold[" + request.key() + " " + owner + " " + state + "]";
    }
}
