package so.lock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.lang.System.Logger.Level;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import so.lock.Connections.Connection;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/** Renews a hold, watches it, and checks its lease by the clock. The first of the three to notice a loss reports it. */
final class Keeper {
    private static final long LONGEST_WATCH_MS = 10_000;
    private static final long LONGEST_RENEWAL = 1_000_000_000; // ns

    private final Locks locks;
    private final Holding hold;
    private final Request request;
    private final Connection session;
    private volatile long leaseMs;
    private final ReentrantLock sending = new ReentrantLock(); // two renewals must not overtake each other
    private final Set<Call> watches = ConcurrentHashMap.newKeySet();
    private volatile Thread thread;
    /** When the lease that was confirmed last expires, by nanoTime. */
    volatile long end;
    private volatile long renewal; // by nanoTime
    private volatile long pauseMs = Call.FIRST_PAUSE_MS;
    private volatile boolean renewing;
    private volatile boolean begun; // whether the start of the lease is known
    private volatile boolean stopped;
    private volatile boolean released;
    private volatile boolean crowded; // a renewal with replicas could not be sent
    /** The error of the last renewal; null if it has succeeded. */
    volatile RuntimeException failure;
    private Clock.Entry tick;

    Keeper(Locks locks, Holding hold, Request request, Connection session) {
        this.locks = locks;
        this.hold = hold;
        this.request = request;
        this.session = session;
        this.leaseMs = request.leaseMs();
    }

    /**
     * Begins. After a long wait the start of the lease is not known, so the lease is renewed at once.
     *
     * @param sent when the granted request was sent
     * @param watched whether its loss is to be reported at once
     * @param owning the lock is renewed only while this thread is alive; null: always
     */
    void start(long sent, boolean watched, Thread owning) {
        thread = owning;
        long now = System.nanoTime();
        long lease = ns(leaseMs);
        boolean waited = now - sent > lease / 3;
        end = (waited ? now : sent) + lease;
        renewal = waited ? now : sent + lease / 3;
        begun = !waited;
        schedule();
        if (session != null || watched) {
            locks.workers.help(() -> watch(request.key(), session));
            request.keys().stream().skip(1).forEach(key -> locks.workers.help(() -> watch(key, null)));
        }
    }

    /**
     * Ends renewals and watches.
     *
     * @param byServer whether the server has released it, which ends the watches; otherwise they are disconnected
     */
    synchronized void stop(boolean byServer) {
        released = byServer;
        stopped = true;
        locks.workers.clock.cancel(tick);
        if (!isOwned()) {
            locks.forget(thread);
        }
        watches.forEach(released ? Call::stop : Call::disconnect);
        if (!released) {
            locks.connections.drop(session);
        }
    }

    boolean isExpired() {
        return System.nanoTime() - end >= 0;
    }

    private boolean renews() {
        return session == null && (!begun || request.options().renew && isOwned());
    }

    /** Whether its thread is alive. */
    private boolean isOwned() {
        return thread == null || thread.isAlive();
    }

    private synchronized void schedule() {
        locks.workers.clock.cancel(tick);
        if (stopped) {
            return;
        }
        long next = renews() && !renewing && renewal - end < 0 ? renewal : end;
        tick = locks.workers.clock.at(next, this::tick);
    }

    /** Runs on the thread of the clock, so it must not block. */
    private void tick() {
        if (isExpired()) {
            hold.lose(Holding.EXPIRED);
            return;
        }
        if (renews() && !renewing && System.nanoTime() - renewal >= 0) {
            renewing = true;
            // those that wait for replicas delay no others
            String queue = locks.connections.knownNode(request.key()) + (replicas() ? " with replicas" : "");
            locks.workers.renewals.add(queue, this::renew);
        }
        schedule();
    }

    private void renew() {
        try {
            renew(0, System.nanoTime() + Math.min(ns(leaseMs) / 6, LONGEST_RENEWAL));
        } catch (ServerException e) {
            if (e.code().equals("NOTHELD")) {
                hold.lose(Holding.REPORTED);
            }
            later(locks.refusal(request.named(), e, request.key()));
        } catch (LinkException e) {
            later(e.original());
        } finally {
            renewing = false;
            schedule();
        }
    }

    /**
     * Renews it now.
     *
     * @param newLeaseMs its lease from now on; 0: as before. A shorter one counts from the moment when the request is
     *     sent, because the request may be executed and its reply be lost; a longer one when it has been confirmed
     * @param until for how long the request is repeated
     */
    void renew(long newLeaseMs, long until) throws LinkException, ServerException {
        Call call = new Call(locks.connections, request.key(), !replicas() || crowded, null, null, List.of());
        AtomicLong sent = new AtomicLong();
        sending.lock();
        try {
            long ms = newLeaseMs == 0 ? leaseMs : newLeaseMs;
            List<String> arguments = request.renew(hold.owner, session == null ? Request.px(ms) : List.of());
            call.send(() -> {
                sent.set(System.nanoTime());
                shorten(ms, sent.get());
                return new Call.Command(arguments, Call.SHORT_MS + request.options().replicasMs, false);
            }, until);
            crowded = false;
            leaseMs = ms;
            confirmed(sent.get());
        } catch (LinkException e) {
            crowded = !call.isDoubtful();
            throw e;
        } finally {
            sending.unlock();
            schedule();
        }
    }

    private void shorten(long ms, long sent) {
        if (ms < leaseMs) {
            leaseMs = ms;
            end = Math.min(end - sent, ns(ms)) + sent;
            renewal = Math.min(renewal - sent, ns(ms) / 3) + sent;
            schedule();
        }
    }

    /**
     * Runs on a thread of its own. A session is watched on its own connection, so that the loss of the connection is
     * noticed at once. The hold is then bound to a new connection, if that is possible within lock.session-grace.
     */
    private void watch(String key, Connection bound) {
        List<List<String>> bindings = bound == null ? List.of() : List.of(request.renew(hold.owner, Request.SESSION));
        // Not only the reply to the next watch, which may arrive a third of the lease later.
        Call call = new Call(locks.connections, key, false, null, bound, bindings).greeted(sent -> confirmedBy(bound, sent));
        watches.add(call);
        long longestMs = Math.min(LONGEST_WATCH_MS, locks.maxBlockMs);
        long blockMs = Math.max(1, Math.min(request.leaseMs() / 3, longestMs));
        Call.Command command = new Call.Command(
                Request.watch(key, hold.owner, blockMs), blockMs + Call.SHORT_MS, false);
        boolean refused = false;
        boolean warned = false;
        boolean ended = false; // by the server, perhaps before the reply to the release has been read
        try {
            while (!stopped) {
                long until = bound == null ? System.nanoTime() + Call.NO_LIMIT : end;
                try {
                    if (refused) {
                        for (List<String> binding : bindings) {
                            Call.uninterrupted(() -> call.send(() -> new Call.Command(binding), until, null));
                        }
                    } else if (Call.uninterrupted(() -> call.send(() -> command, until, null)) != null) {
                        hold.lose(Holding.REPORTED);
                        ended = true;
                        break;
                    }
                    refused = false;
                    confirmedBy(bound, call.lastSent());
                } catch (ServerException e) { // it is lost, or has too many waiters, for instance
                    if (e.code().equals("NOTHELD")) {
                        hold.lose(Holding.REPORTED);
                        ended = true;
                        break;
                    }
                    Locks.LOG.log(warned ? Level.DEBUG : Level.WARNING, request.named() + ": its loss may be noticed late", e);
                    warned = true;
                    refused = true;
                    for (long slept = 0; slept < blockMs && !stopped; slept += Call.LATER_MS) {
                        LockSupport.parkNanos(MILLISECONDS.toNanos(Call.LATER_MS));
                    }
                } catch (LinkException e) { // perhaps after the old end of a session that was bound again meanwhile
                    if (bound == null || isExpired() || locks.connections.closed) {
                        return; // it is stopped, or the clock will notice the loss
                    }
                }
            }
        } finally {
            watches.remove(call);
            if (!released && !ended) {
                call.disconnect();
            }
            call.giveBack();
        }
    }

    /** The reply to a command that was sent then shows that the session lives, if it is one. */
    private void confirmedBy(Connection bound, long sent) {
        if (bound != null && isOwned()) {
            confirmed(sent);
        }
    }

    private static long ns(long ms) {
        return Math.min(MILLISECONDS.toNanos(ms), Call.NO_LIMIT);
    }

    private boolean replicas() {
        return request.options().replicas > 0;
    }

    private void confirmed(long sent) {
        end = sent + ns(leaseMs);
        renewal = sent + ns(leaseMs) / 3;
        begun = true;
        pauseMs = Call.FIRST_PAUSE_MS;
        failure = null;
    }

    private void later(RuntimeException e) {
        failure = e;
        renewal = System.nanoTime() + MILLISECONDS.toNanos(pauseMs);
        pauseMs = Math.min(2 * pauseMs, Call.LONGEST_PAUSE_MS);
    }
}
