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

#define PAUSE_MS 1 /* the shortest that a timer can do from inside a timer */

/* Nothing announces the end of a pause, of a load or of a refusal. */
#define RETRY_MS 20

/* Where leases or the grace are longer, each binding is looked at so often: its hold may have gone
 * without an event that says whose it was. */
#define LOOK_ANEW_MS 300000

static struct {
    sessionsRelease release;
    struct timer timer;
    int64_t walk_at_ms; /* when to look at all again, if nothing else would */
} sessions;

void sessionsConnect(sessionsRelease release) {
    sessions.release = release;
}

static void onTimer(RedisModuleCtx *ctx, struct timer *timer);

/* Sees to it that the timer rings at `at_ms`, or earlier; INT64_MAX = never. */
static void wakeAt(RedisModuleCtx *ctx, int64_t at_ms, int64_t now_ms) {
    struct timer *timer = &sessions.timer;
    if (at_ms != INT64_MAX && !(timer->is_set && timer->at_ms <= at_ms)) {
        timerSet(ctx, timer, at_ms, now_ms, onTimer);
    }
}

static int64_t earlier(int64_t a_ms, int64_t b_ms) {
    return a_ms < b_ms ? a_ms : b_ms;
}

/* When the walk goes on, or begins again; INT64_MAX = never. */
static int64_t nextWalk(void) {
    if (bindingsWalks()) {
        return 0;
    }
    bool looks_otherwise =
        bindingsRenewEvery() <= LOOK_ANEW_MS && configSessionGraceMs() <= LOOK_ANEW_MS;
    return looks_otherwise || bindingsCount() == 0 ? INT64_MAX : sessions.walk_at_ms;
}

/* When a binding is due to be released or looked at; INT64_MAX = never. */
static int64_t nextDueButRenewals(void) {
    return earlier(bindingsNextRelease(), nextWalk());
}

/* When the next binding is due; INT64_MAX = never. */
static int64_t nextDue(void) {
    return earlier(bindingsNextRenewal(), nextDueButRenewals());
}

struct acquisitionSession sessionsAsked(RedisModuleCtx *ctx) {
    static uint64_t last_order;
    return (struct acquisitionSession){serverConnectionOf(ctx), ++last_order};
}

void sessionsBind(RedisModuleCtx *ctx, const struct sessionsHold *hold,
                  const struct acquisitionSession *session, int64_t now_ms) {
    if (bindingsCount() == 0) {
        sessions.walk_at_ms = now_ms + LOOK_ANEW_MS;
    }
    bindingsBind(hold, session, now_ms);
    wakeAt(ctx, nextDue(), now_ms);
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

static void wakeSoon(RedisModuleCtx *ctx) {
    int64_t now_ms = RedisModule_Milliseconds();
    wakeAt(ctx, nextDue(), now_ms);
    drainWakeLoop();
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
    return binding ? binding->client_id : 0;
}

void sessionsClientGone(RedisModuleCtx *ctx, unsigned long long client_id, int64_t now_ms) {
    if (bindingsClientGone(client_id, now_ms)) {
        wakeAt(ctx, nextDue(), now_ms);
        drainWakeLoop(); /* who has said QUIT is closed when the answer has been written */
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
    RedisModule_SelectDb(ctx, binding->db);
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
    struct binding *binding = bindingsToRelease(now_ms);
    if (!binding) {
        return false;
    }
    RedisModule_SelectDb(ctx, binding->db);
    if (hasToWait(ctx, binding, now_ms)) {
        bindingsPutOff(binding, now_ms);
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
    if (renew(ctx, binding, now_ms)) {
        bindingsRenewed(binding, now_ms);
    } else {
        bindingsForget(binding);
    }
    return true;
}

/* Looks whether the holds of the next binding in the walk are there. */
static bool lookAtNext(RedisModuleCtx *ctx, int64_t now_ms) {
    if (!bindingsWalks() && now_ms >= nextWalk()) {
        bindingsWalkBegin();
    }
    struct binding *binding = bindingsWalkOn();
    if (!binding) {
        return false;
    }
    sessions.walk_at_ms = now_ms + LOOK_ANEW_MS;
    const struct holdsOwner of = {binding->db, binding->name, binding->owner};
    RedisModule_SelectDb(ctx, binding->db);
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
    RedisModule_SelectDb(ctx, binding->db);
    return serverConsentTo(ctx, binding->name) != SERVER_REFUSES;
}

/* Takes from both lines, and from the walk, alternately: none makes the others late. */
static bool workOn(RedisModuleCtx *ctx, int64_t now_ms, bool may_renew) {
    bool renewed = may_renew && renewNext(ctx, now_ms);
    bool has_released = releaseNext(ctx, now_ms);
    bool has_looked = lookAtNext(ctx, now_ms);
    return renewed || has_released || has_looked;
}

/* A lease is due when a third of it is over. When the second third is over too, a lease that ends
 * while its holder lives is the greater evil. */
static void workForAWhile(RedisModuleCtx *ctx, int64_t now_ms, bool may_renew) {
    int64_t due_ms = earlier(bindingsNextRenewal(), bindingsNextRelease());
    bool late = now_ms - bindingsRenewEvery() > due_ms;
    uint64_t end_us = RedisModule_MonotonicMicroseconds() + (late ? LATE_WORK_US : WORK_US);
    while (workOn(ctx, now_ms, may_renew) && RedisModule_MonotonicMicroseconds() < end_us) {
    }
}

static void work(RedisModuleCtx *ctx, int64_t now_ms) {
    bool may_renew = mayRenew(ctx, now_ms);
    workForAWhile(ctx, now_ms, may_renew);
    int64_t due_ms = may_renew ? nextDue() : nextDueButRenewals();
    if (!may_renew && due_ms > now_ms + RETRY_MS) {
        due_ms = now_ms + RETRY_MS;
    }
    wakeAt(ctx, due_ms <= now_ms ? now_ms + PAUSE_MS : due_ms, now_ms);
}

static void onTimer(RedisModuleCtx *ctx, struct timer *timer) {
    (void)timer;
    int64_t now_ms = RedisModule_Milliseconds();
    switch (serverWritableNow(ctx)) {
    case SERVER_WRITABLE:
        work(ctx, now_ms);
        break;
    case SERVER_WRITABLE_LATER:
        wakeAt(ctx, now_ms + RETRY_MS, now_ms);
        break;
    case SERVER_IS_REPLICA:
        sessionsForgetAll();
        break;
    }
}
