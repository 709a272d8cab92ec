/* Sessions: holds that live as long as a connection.
 *
 *   sessionsAsked                   a request is one of this connection
 *   sessionsBind, sessionsUnbind    holds are bound to a connection, or live by their leases
 *   sessionsClientGone              the connection has closed: events.c
 *   sessionsClientOf                for LOCK.INFO
 *   sessionsForgetAll, sessionsSwapped, sessionsLookAnew, sessionsConfigured
 *                                   what happens to all of them
 *
 * What is bound to which connection, and who is due when, is in bindings.c.
 *
 * Contracts are in sessions.h.
 */
#include "waits/sessions.h"

#include "blocking/drain.h"
#include "keys/holds.h"
#include "server/config.h"
#include "server/failpoint.h"
#include "server/quarantine.h"
#include "server/server.h"
#include "server/timer.h"
#include "waits/latches.h"
#include "waits/watches.h"

/* However many bindings are due, the timer's work is short, and then other clients may speak for a
 * millisecond. Only when that is not enough to keep the leases does it take longer. About 400
 * renewals; what they replicate is sent afterwards, and takes as long again. */
#define WORK_US 300
#define LATE_WORK_US 3000

#define PAUSE_US 1000 /* the shortest that a timer can do from inside a timer */

/* Nothing announces the end of a pause, of a load or of a refusal. */
#define RETRY_US 20000

/* Where leases or the grace are longer, each binding is looked at so often: its hold may have gone
 * without an event that says whose it was. */
#define LOOK_ANEW_MS 300000
#define LOOK_ANEW_US (LOOK_ANEW_MS * 1000LL)

static struct {
    sessionsRelease release;
    struct timer renewals; /* by the wall clock, as leases end by it */
    struct timer others;   /* graces, the walk and what is tried again, by the monotonic clock */
    int64_t walk_at_us;    /* when to look at all again, if nothing else would */
} sessions;

void sessionsConnect(sessionsRelease release) {
    sessions.release = release;
}

static void onTimer(RedisModuleCtx *ctx, struct timer *timer);

/* Sees to it that the timer rings at `at_ms`, unix time, or earlier; INT64_MAX = never. */
static void renewAt(RedisModuleCtx *ctx, int64_t at_ms) {
    struct timer *timer = &sessions.renewals;
    if (at_ms != INT64_MAX && !(timer->is_set && timer->place.at <= at_ms)) {
        timerSetWall(ctx, timer, at_ms, onTimer);
    }
}

/* The same by the monotonic clock. */
static void wakeAt(RedisModuleCtx *ctx, int64_t at_us) {
    struct timer *timer = &sessions.others;
    if (at_us != INT64_MAX && !(timer->is_set && timer->place.at <= at_us)) {
        timerSet(ctx, timer, at_us, onTimer);
    }
}

/* When the walk goes on, or begins again; INT64_MAX = never. */
static int64_t nextWalk(void) {
    if (bindingsWalks()) {
        return 0;
    }
    bool looks_otherwise =
        bindingsRenewEvery() <= LOOK_ANEW_MS && configSessionGraceMs() <= LOOK_ANEW_MS;
    return looks_otherwise || bindingsCount() == 0 ? INT64_MAX : sessions.walk_at_us;
}

/* When a binding is due to be released or looked at; INT64_MAX = never. */
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

struct acquisitionSession sessionsAsked(RedisModuleCtx *ctx) {
    static uint64_t last_order;
    return (struct acquisitionSession){serverConnectionOf(ctx), ++last_order};
}

void sessionsBind(RedisModuleCtx *ctx, const struct sessionsHold *hold,
                  const struct acquisitionSession *session, int64_t now_ms) {
    if (bindingsCount() == 0) {
        sessions.walk_at_us = timerNow() + LOOK_ANEW_US;
    }
    bindingsBind(hold, session, now_ms);
    setTimers(ctx);
}

/* Asked by every first hold. */
static struct binding *find(const struct sessionsHold *hold) {
    return bindingsCount() > 0 ? bindingsFind(hold) : NULL;
}

void sessionsUnbind(const struct sessionsHold *hold) {
    struct binding *binding = find(hold);
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

void sessionsLookAnew(RedisModuleCtx *ctx) {
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

unsigned long long sessionsClientOf(const struct sessionsHold *hold) {
    const struct binding *binding = find(hold);
    return binding ? bindingsClientOf(binding) : 0;
}

void sessionsClientGone(RedisModuleCtx *ctx, unsigned long long client_id) {
    if (bindingsClientGone(client_id, timerNow())) {
        wakeSoon(ctx); /* who has said QUIT is closed when the answer has been written */
    }
}

size_t sessionsCount(void) {
    return bindingsCount();
}

/* ---- the timer's work ---- */

/* Whether nothing can be written to the lock now: its leases may be on another node, to which its
 * slot moves, or a key is in use. */
static bool isOutOfReach(enum holdsShape shape) {
    return shape == HOLDS_MOVING || shape == HOLDS_IN_USE;
}

/* Returns whether the owner still holds the lock, or may: one that is out of reach is left alone, and
 * one renewal of three may well be missed. */
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
    enum holdsShape shape = holdsOpenToWrite(&holds, ctx, binding->name, now_ms);
    holdsClose(&holds);
    return isOutOfReach(shape);
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
    /* First, because the same owner may wait there on another connection: then the lock is handed
     * to it, and its new hold may be bound anew. */
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
        return bindingsMoveClosed(); /* this one too, by and by */
    }
    if (renew(ctx, binding, now_ms)) {
        bindingsRenewed(binding, now_ms);
    } else {
        bindingsForget(binding);
    }
    return true;
}

/* Looks whether the holds of the next binding in the walk are there. */
static bool lookAtNext(RedisModuleCtx *ctx, int64_t now_ms) {
    if (!bindingsWalks() && timerNow() >= nextWalk()) {
        bindingsWalkBegin();
    }
    struct binding *binding = bindingsWalkOn();
    if (!binding) {
        return false;
    }
    sessions.walk_at_us = timerNow() + LOOK_ANEW_US;
    const struct holdsOwner of = {bindingsDb(binding), binding->name, binding->owner};
    RedisModule_SelectDb(ctx, bindingsDb(binding));
    if (!hasToWait(ctx, binding, now_ms) && !holdsAreThere(ctx, &of, now_ms)) {
        bindingsForget(binding);
    }
    return true;
}

/* A master that would refuse a client's write, or does not know because it stood still, may be one
 * of two: what it renews nobody else knows of. Then its holds end with their leases. Asked once for all, as the server refuses all or none;
 * of a key whose slot is another node's nothing is left to renew. */
static bool mayRenew(RedisModuleCtx *ctx, int64_t now_ms) {
    const struct binding *binding = bindingsToRenew(now_ms);
    if (!binding) {
        return true;
    }
    if (quarantineKeepsRenewal(now_ms)) {
        return false;
    }
    RedisModule_SelectDb(ctx, bindingsDb(binding));
    return serverConsentTo(ctx, binding->name) != SERVER_REFUSES;
}

/* Takes from both lines, from what is to change lines, and from the walk, alternately: none makes the
 * others late. */
static bool workOn(RedisModuleCtx *ctx, int64_t now_ms, bool may_renew) {
    bool has_moved = bindingsMoveClosed();
    bool renewed = may_renew && renewNext(ctx, now_ms);
    bool has_released = releaseNext(ctx, now_ms);
    bool has_looked = lookAtNext(ctx, now_ms);
    return has_moved || renewed || has_released || has_looked;
}

/* A lease is due when a third of it is over. When the second third is over too, a lease that ends
 * while its holder lives is the greater evil. */
static void workForAWhile(RedisModuleCtx *ctx, int64_t now_ms, bool may_renew) {
    bool late = now_ms - bindingsRenewEvery() > bindingsNextRenewal();
    uint64_t end_us = RedisModule_MonotonicMicroseconds() + (late ? LATE_WORK_US : WORK_US);
    while (workOn(ctx, now_ms, may_renew) && RedisModule_MonotonicMicroseconds() < end_us) {
    }
}

/* What is still due comes after a pause. */
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

static void onTimer(RedisModuleCtx *ctx, struct timer *timer) {
    (void)timer;
    switch (serverWritableNow(ctx)) {
    case SERVER_WRITABLE:
        work(ctx, RedisModule_Milliseconds());
        break;
    case SERVER_WRITABLE_LATER:
        wakeAt(ctx, timerNow() + RETRY_US);
        break;
    case SERVER_IS_REPLICA:
        sessionsForgetAll();
        break;
    }
}
