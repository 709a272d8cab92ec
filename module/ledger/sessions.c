/* The timers of sessions: renewals, releases, and checks whether bound holds still exist.
 *
 *   sessionsAsked                   returns the connection of the running command
 *   sessionsBind, sessionsUnbind    bind holds to a connection, and remove their binding
 *   sessionsClientGone              begins the grace period after the connection has closed
 *   sessionsClientOf                returns the connection of a binding, for LOCK.INFO
 *   sessionsForgetAll, sessionsSwapped, sessionsLookAgain, sessionsConfigured
 *                                   apply an event or a setting to all bindings
 *
 * The bindings, and the times at which they are due, are in bindings.c.
 *
 * Contracts are in sessions.h.
 */
#include "ledger/sessions.h"

#include "blocking/drain.h"
#include "common/config.h"
#include "common/failpoint.h"
#include "common/quarantine.h"
#include "keys/holds.h"
#include "observing/watches.h"
#include "server/server.h"
#include "server/timer.h"
#include "waits/latches.h"

/* However many bindings are due, the timer works for a short time slice, and then other clients are
 * served for a millisecond. Only when that is not enough to keep the leases does it work longer.
 * The short slice is about 400 renewals; what they replicate is sent afterwards and takes as long
 * again. */
#define WORK_US 300
#define LATE_WORK_US 3000

#define PAUSE_US 1000 /* the shortest delay of a timer that is set inside a timer */

/* There is no event for the end of a pause, of a load or of a refusal. */
#define RETRY_US 20000

/* If the leases or the grace are longer than this, each binding is checked after this time: its
 * hold may have been removed without an event that says whose hold it was. */
#define NEXT_WALK_MS 300000
#define NEXT_WALK_US (NEXT_WALK_MS * 1000LL)

static struct {
    sessionsRelease release;
    struct timer renewals; /* by the wall clock, because leases expire by it */
    struct timer others;   /* graces, checks and retries, by the monotonic clock */
    int64_t walk_at_us;    /* when to check all again, if nothing else does */
} sessions;

void sessionsConnect(sessionsRelease release) {
    sessions.release = release;
}

static void sessionsOnTimer(RedisModuleCtx *ctx, struct timer *timer);

/* Sets the timer for `at_ms`, unix time, unless it is set for an earlier time; INT64_MAX: never. */
static void renewAt(RedisModuleCtx *ctx, int64_t at_ms) {
    struct timer *timer = &sessions.renewals;
    if (at_ms != INT64_MAX && !(timer->is_set && timer->place.at <= at_ms)) {
        timerSetWall(ctx, timer, at_ms, sessionsOnTimer);
    }
}

/* The same by the monotonic clock. */
static void wakeAt(RedisModuleCtx *ctx, int64_t at_us) {
    struct timer *timer = &sessions.others;
    if (at_us != INT64_MAX && !(timer->is_set && timer->place.at <= at_us)) {
        timerSet(ctx, timer, at_us, sessionsOnTimer);
    }
}

/* When the check of all bindings goes on, or begins again; INT64_MAX: never. */
static int64_t nextWalk(void) {
    if (bindingsWalks()) {
        return 0;
    }
    bool looks_otherwise =
        bindingsRenewEvery() <= NEXT_WALK_MS && configSessionGraceMs() <= NEXT_WALK_MS;
    return looks_otherwise || bindingsCount() == 0 ? INT64_MAX : sessions.walk_at_us;
}

/* When a binding is due to be released or checked; INT64_MAX: never. */
static int64_t nextRelease(void) {
    int64_t release_us = bindingsNextRelease(), walk_us = nextWalk();
    return release_us < walk_us ? release_us : walk_us;
}

static void setTimers(RedisModuleCtx *ctx) {
    renewAt(ctx, bindingsNextRenewal());
    wakeAt(ctx, nextRelease());
}

static void wakeSoon(RedisModuleCtx *ctx) {
    setTimers(ctx);
    drainWakeLoop();
}

struct requestSession sessionsAsked(RedisModuleCtx *ctx) {
    static uint64_t last_order;
    return (struct requestSession){serverConnectionOf(ctx), ++last_order};
}

void sessionsBind(RedisModuleCtx *ctx, const struct holdId *id,
                  const struct requestSession *session, int64_t now_ms) {
    if (bindingsCount() == 0) {
        sessions.walk_at_us = timerNow() + NEXT_WALK_US;
    }
    bindingsBind(id, session, now_ms);
    setTimers(ctx);
}

/* Called for every first hold: one comparison when there is no binding. */
static struct binding *sessionsFind(const struct holdId *id) {
    return bindingsCount() > 0 ? bindingsFind(id) : NULL;
}

void sessionsUnbind(const struct holdId *id) {
    struct binding *binding = sessionsFind(id);
    if (binding) {
        bindingsForget(binding);
    }
}

void sessionsForgetAll(void) {
    bindingsForgetAll();
}

void sessionsSwapped(int first_db, int second_db) {
    bindingsSwapped(first_db, second_db);
}

void sessionsLookAgain(RedisModuleCtx *ctx) {
    if (bindingsCount() > 0) {
        bindingsWalkBegin();
        wakeSoon(ctx);
    }
}

void sessionsConfigured(RedisModuleCtx *ctx) {
    if (bindingsCount() > 0) {
        wakeSoon(ctx);
    }
}

unsigned long long sessionsClientOf(const struct holdId *id) {
    const struct binding *binding = sessionsFind(id);
    return binding ? bindingsClientOf(binding) : 0;
}

void sessionsClientGone(RedisModuleCtx *ctx, unsigned long long client_id) {
    if (bindingsClientGone(client_id, timerNow())) {
        wakeSoon(ctx); /* after QUIT the connection closes once the reply is written */
    }
}

size_t sessionsCount(void) {
    return bindingsCount();
}

/* ---- the timer's work ---- */

/* Whether nothing can be written to the lock now: its leases may be on another node, to which its
 * slot is being moved, or a key is in use. */
static bool isOutOfReach(enum holdsKind kind) {
    return kind == HOLDS_MOVING || kind == HOLDS_IN_USE;
}

/* Returns whether the owner still holds the lock, or may hold it: a lock that is out of reach is
 * left alone, because one renewal of three may be missed. */
static bool renew(RedisModuleCtx *ctx, const struct binding *binding, int64_t now_ms) {
    struct holds holds;
    RedisModule_SelectDb(ctx, bindingsDb(binding));
    (void)failpoint(FAILPOINT_RENEW_BEGUN);
    bool holds_it = isOutOfReach(holdsOpenToWrite(&holds, ctx, binding->name, now_ms)) ||
                    holdsRenew(&holds, binding->owner, configDefaultLeaseMs()) > 0;
    holdsClose(&holds);
    watchesNoteOwner(ctx, binding->name, binding->owner);
    latchesChanged(ctx, binding->name);
    (void)failpoint(FAILPOINT_RENEW_DONE);
    return holds_it;
}

static bool hasToWait(RedisModuleCtx *ctx, const struct binding *binding, int64_t now_ms) {
    struct holds holds;
    enum holdsKind kind = holdsOpenToWrite(&holds, ctx, binding->name, now_ms);
    holdsClose(&holds);
    return isOutOfReach(kind);
}

static bool releaseNext(RedisModuleCtx *ctx, int64_t now_ms) {
    struct binding *binding = bindingsToRelease(timerNow());
    if (!binding) {
        return false;
    }
    RedisModule_SelectDb(ctx, bindingsDb(binding));
    if (hasToWait(ctx, binding, now_ms)) {
        bindingsPutOff(binding, timerNow());
        return true;
    }
    RedisModuleString *name = binding->name, *owner = binding->owner;
    RedisModule_RetainString(NULL, name);
    RedisModule_RetainString(NULL, owner);
    /* Before the release, because the same owner may wait for the lock on another connection: then
     * the lock is handed to it, and its new hold may be bound again. */
    bindingsForget(binding);
    sessions.release(ctx, name, owner, now_ms);
    RedisModule_FreeString(NULL, name);
    RedisModule_FreeString(NULL, owner);
    return true;
}

static bool renewNext(RedisModuleCtx *ctx, int64_t now_ms) {
    struct binding *binding = bindingsToRenew(now_ms);
    if (!binding) {
        return false;
    }
    if (bindingsIsClosed(binding)) {
        return bindingsMoveClosed(); /* this one too, sooner or later */
    }
    if (renew(ctx, binding, now_ms)) {
        bindingsRenewed(binding, now_ms);
    } else {
        bindingsForget(binding);
    }
    return true;
}

/* Checks whether the holds of the next binding of the iteration still exist. */
static bool lookAtNext(RedisModuleCtx *ctx, int64_t now_ms) {
    if (!bindingsWalks() && timerNow() >= nextWalk()) {
        bindingsWalkBegin();
    }
    struct binding *binding = bindingsWalkOn();
    if (!binding) {
        return false;
    }
    sessions.walk_at_us = timerNow() + NEXT_WALK_US;
    const struct holdId id = {bindingsDb(binding), binding->name, binding->owner};
    RedisModule_SelectDb(ctx, bindingsDb(binding));
    if (!hasToWait(ctx, binding, now_ms) && !holdsAreThere(ctx, &id, now_ms)) {
        bindingsForget(binding);
    }
    return true;
}

/* A master that would refuse a client's write, or that was stalled and does not know whether it
 * would, may be one of two: no other node knows about what it renews. Then its holds expire with
 * their leases. The server is queried for one key only, because it refuses all writes or none; if
 * the key's slot is another node's, nothing is left to renew. */
static bool mayRenew(RedisModuleCtx *ctx, int64_t now_ms) {
    const struct binding *binding = bindingsToRenew(now_ms);
    if (!binding) {
        return true;
    }
    if (quarantineKeepsRenewal(now_ms)) {
        return false;
    }
    RedisModule_SelectDb(ctx, bindingsDb(binding));
    return serverMayWriteKey(ctx, binding->name) != SERVER_REFUSES;
}

/* Takes one step of each kind: one list must not delay the other. */
static bool sessionsWorkOn(RedisModuleCtx *ctx, int64_t now_ms, bool may_renew) {
    bool has_moved = bindingsMoveClosed();
    bool renewed = may_renew && renewNext(ctx, now_ms);
    bool has_released = releaseNext(ctx, now_ms);
    bool has_looked = lookAtNext(ctx, now_ms);
    return has_moved || renewed || has_released || has_looked;
}

/* A lease is due for renewal when a third of it has passed. If the second third has passed too,
 * longer time slices are better than a lease that expires although its holder is connected. */
static void workForAWhile(RedisModuleCtx *ctx, int64_t now_ms, bool may_renew) {
    bool late = now_ms - bindingsRenewEvery() > bindingsNextRenewal();
    uint64_t end_us = RedisModule_MonotonicMicroseconds() + (late ? LATE_WORK_US : WORK_US);
    while (sessionsWorkOn(ctx, now_ms, may_renew) && RedisModule_MonotonicMicroseconds() < end_us) {
    }
}

/* What is still due is done after a pause. */
static void work(RedisModuleCtx *ctx, int64_t now_ms) {
    bool may_renew = mayRenew(ctx, now_ms);
    workForAWhile(ctx, now_ms, may_renew);
    int64_t now_us = timerNow(), release_us = nextRelease();
    wakeAt(ctx, release_us > now_us ? release_us : now_us + PAUSE_US);
    if (!may_renew) {
        wakeAt(ctx, now_us + RETRY_US);
    } else if (bindingsNextRenewal() <= now_ms) {
        wakeAt(ctx, now_us + PAUSE_US);
    } else {
        renewAt(ctx, bindingsNextRenewal());
    }
}

static void sessionsOnTimer(RedisModuleCtx *ctx, struct timer *timer) {
    (void)timer;
    switch (serverWritableNow(ctx)) {
    case SERVER_WRITABLE:
        work(ctx, serverNow());
        break;
    case SERVER_WRITABLE_LATER:
        wakeAt(ctx, timerNow() + RETRY_US);
        break;
    case SERVER_IS_REPLICA:
        sessionsForgetAll();
        break;
    }
}
