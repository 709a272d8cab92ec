package so.lock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.lang.System.Logger.Level;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import so.lock.Connections.Connection;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/** Renews a hold, watches it, and checks its lease by the clock. The first of the three to notice a loss reports it. */
final class Keeper {
    private static final long LONGEST_WATCH_MS = 10_000;
    private static final long LONGEST_RENEWAL = 1_000_000_000; // ns
    private static final long MARGIN_MS = 2_000;
    private static final long NO_LIMIT = 1L << 61;
    private static final long FIRST_PAUSE_MS = 20;
    private static final long LONGEST_PAUSE_MS = 500;

    private final Locks locks;
    private final Holding hold;
    private final Request request;
    private final Connection session;
    private final long lease; // ns
    private final Set<Call> watches = ConcurrentHashMap.newKeySet();
    private volatile Thread thread;
    private volatile long end; // by nanoTime, like the next
    private volatile long renewal;
    private volatile long pauseMs = FIRST_PAUSE_MS;
    private volatile boolean renewing;
    private volatile boolean begun; // whether the start of the lease is known
    private volatile boolean stopped;
    private Clock.Entry tick;

    Keeper(Locks locks, Holding hold, Request request, Connection session) {
        this.locks = locks;
        this.hold = hold;
        this.request = request;
        this.session = session;
        this.lease = Math.min(MILLISECONDS.toNanos(request.leaseMs()), NO_LIMIT);
    }

    /**
     * Begins. After a long wait the start of the lease is not known, so the lease is renewed at once.
     *
     * @param sent when the granted request was sent
     * @param owning the lock is renewed only while this thread is alive; null: always
     */
    void start(long sent, Thread owning) {
        thread = owning;
        long now = System.nanoTime();
        boolean waited = now - sent > lease / 3;
        end = (waited ? now : sent) + lease;
        renewal = waited ? now : sent + lease / 3;
        begun = !waited;
        schedule();
        if (session != null || request.options().onLost != null) {
            locks.workers.help(() -> watch(request.key(), session));
            request.keys().stream().skip(1).forEach(key -> locks.workers.help(() -> watch(key, null)));
        }
    }

    /** Ends renewals and watches, and closes the session's connection. */
    synchronized void stop() {
        stopped = true;
        locks.workers.clock.cancel(tick);
        watches.forEach(Call::disconnect);
        locks.connections.drop(session);
    }

    /** When the lease that was confirmed last expires, by nanoTime. */
    long end() {
        return end;
    }

    boolean isExpired() {
        return System.nanoTime() - end >= 0;
    }

    private boolean renews() {
        return session == null && (!begun || request.options().renew && (thread == null || thread.isAlive()));
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
            if (thread != null && !thread.isAlive()) {
                locks.forget(thread);
            }
            hold.lose(Holding.EXPIRED);
            return;
        }
        if (renews() && !renewing && System.nanoTime() - renewal >= 0) {
            renewing = true;
            locks.workers.renewals.add(locks.connections.knownNode(request.key()), this::renew);
        }
        schedule();
    }

    private void renew() {
        long sent = System.nanoTime();
        long time = Math.min(lease / 6, LONGEST_RENEWAL);
        try {
            for (String key : request.keys()) {
                Call.renew(locks.connections, key, request.renew(key, hold.owner(), false), sent + time, request.options().replicasMs);
            }
            confirmed(sent);
        } catch (ServerException e) {
            if (e.code().equals("NOTHELD")) {
                hold.lose(Holding.REPORTED);
            }
            later();
        } catch (LinkException e) {
            later();
        } finally {
            renewing = false;
            schedule();
        }
    }

    /**
     * Runs on a thread of its own. A session is watched on its own connection, so that the loss of the connection is
     * noticed at once. The hold is then bound to a new connection, if that is possible within lock.session-grace.
     */
    private void watch(String key, Connection bound) {
        Call call = new Call(locks.connections, key, false, null, bound, bound == null ? List.of() : bindings());
        watches.add(call);
        long blockMs = Math.max(1, Math.min(request.leaseMs() / 3, LONGEST_WATCH_MS));
        Call.Command command = new Call.Command(blockMs + MARGIN_MS, Request.watch(key, hold.owner(), blockMs));
        try {
            while (!stopped) {
                long sent = System.nanoTime();
                long until = bound == null ? sent + NO_LIMIT : end;
                Object reply = Call.uninterrupted(() -> call.send(() -> command, until, null));
                if (reply != null) {
                    hold.lose(Holding.REPORTED);
                } else if (bound != null) {
                    confirmed(sent);
                }
            }
        } catch (ServerException e) {
            unwatched(e);
        } catch (LinkException e) {
            return; // it is stopped, or the clock will notice the loss
        } finally {
            call.disconnect();
            watches.remove(call);
        }
    }

    private List<List<String>> bindings() {
        return request.keys().stream().map(key -> request.renew(key, hold.owner(), true)).toList();
    }

    private void unwatched(ServerException e) {
        if (e.code().equals("NOTHELD")) {
            hold.lose(Holding.REPORTED);
        } else {
            Locks.LOG.log(Level.WARNING, request.named() + ": its loss will be noticed by the clock only", e);
        }
    }

    private void confirmed(long sent) {
        end = sent + lease;
        renewal = sent + lease / 3;
        begun = true;
        pauseMs = FIRST_PAUSE_MS;
    }

    private void later() {
        renewal = System.nanoTime() + MILLISECONDS.toNanos(pauseMs);
        pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    }
}
