/* See sessionwork.h.
 *
 * However many bindings are due, a turn is short, and then other clients may speak for a
 * millisecond. Only when that is not enough to keep the leases is a turn longer.
 */
#include "grant/sessionwork.h"

#include <stdbool.h>
#include <stddef.h>

#include "grant/pass.h"
#include "keys/holds.h"
#include "server/config.h"
#include "server/effects.h"
#include "server/failpoint.h"
#include "server/server.h"
#include "server/stats.h"
#include "waits/contended.h"
#include "waits/sessions.h"

/* About 400 renewals. What they replicate is sent after the turn, and takes as long again. */
#define TURN_US 300
#define LATE_TURN_US 3000

#define PAUSE_MS 1 /* the shortest that a timer can do from inside a timer */

/* Nothing announces the end of a pause or of a load. */
#define RETRY_MS 20

/* Whether somebody waits for the lock, and the server would let him have it now. */
static bool mayHandOn(RedisModuleCtx *ctx, RedisModuleString *name, const struct lock *lock) {
    return lock && serverConsentTo(ctx, name) == SERVER_ACCEPTS;
}

/* Releases all holds of the owner, and hands the lock on. */
static void releaseHolds(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                         int64_t now_ms) {
    struct holds holds;
    struct lock *lock = contendedFind(RedisModule_GetSelectedDb(ctx), name);
    bool hand_on = mayHandOn(ctx, name, lock);
    holdsOpen(&holds, ctx, name, now_ms, KEY_TO_WRITE);
    if (holdsDrop(&holds, owner) > 0) {
        statsCount(STATS_SESSIONS_RELEASED);
        effectsEvent(ctx, name, "lock.released");
        if (hand_on || !lock) {
            passHandOn(&holds);
        } else {
            contendedMarkDue(ctx, lock); /* the drain asks again until it may */
        }
    }
    holdsClose(&holds);
}

/* Returns whether the owner still holds the lock, or may: while the slot of a read-write lock is on
 * the move its leases are left alone, and one renewal of three may well be missed. */
static bool renew(RedisModuleCtx *ctx, const struct binding *binding, int64_t now_ms) {
    struct holds holds;
    RedisModule_SelectDb(ctx, binding->db);
    (void)failpoint(FAILPOINT_RENEW_BEGUN);
    enum holdsShape shape = holdsOpen(&holds, ctx, binding->name, now_ms, KEY_TO_WRITE);
    bool holds_it =
        shape == HOLDS_MOVING || holdsRenew(&holds, binding->owner, configDefaultLeaseMs()) > 0;
    holdsClose(&holds);
    (void)failpoint(FAILPOINT_RENEW_DONE);
    return holds_it;
}

/* Whether these are holds of a read-write lock whose slot is on the move: its leases may be on the
 * other node. */
static bool hasToWait(RedisModuleCtx *ctx, const struct binding *binding, int64_t now_ms) {
    if (!serverIsCluster()) {
        return false;
    }
    struct holds holds;
    enum holdsShape shape = holdsOpen(&holds, ctx, binding->name, now_ms, KEY_TO_WRITE);
    holdsClose(&holds);
    return shape == HOLDS_MOVING;
}

static bool releaseNext(RedisModuleCtx *ctx, int64_t now_ms) {
    struct binding *binding = sessionsNextToRelease(now_ms);
    if (!binding) {
        return false;
    }
    RedisModule_SelectDb(ctx, binding->db);
    if (hasToWait(ctx, binding, now_ms)) {
        sessionsPutOff(binding, now_ms);
        return true;
    }
    RedisModuleString *name = binding->name, *owner = binding->owner;
    RedisModule_RetainString(NULL, name);
    RedisModule_RetainString(NULL, owner);
    /* First, because the same owner may wait there on another connection: then the lock is handed
     * to it, and its new hold may be bound anew. */
    sessionsForget(binding);
    releaseHolds(ctx, name, owner, now_ms);
    RedisModule_FreeString(NULL, name);
    RedisModule_FreeString(NULL, owner);
    return true;
}

static bool renewNext(RedisModuleCtx *ctx, int64_t now_ms) {
    struct binding *binding = sessionsNextToRenew(now_ms);
    if (!binding) {
        return false;
    }
    if (renew(ctx, binding, now_ms)) {
        sessionsRenewed(binding, now_ms);
    } else {
        sessionsForget(binding);
    }
    return true;
}

/* Takes from both lines in turn: neither makes the other late. */
static bool workOn(RedisModuleCtx *ctx, int64_t now_ms) {
    bool renewed = renewNext(ctx, now_ms);
    bool has_released = releaseNext(ctx, now_ms);
    return renewed || has_released;
}

/* A lease is due when a third of it is over. When the second third is over too, a lease that ends
 * while its holder lives is the greater evil. */
static void workForATurn(RedisModuleCtx *ctx, int64_t now_ms) {
    bool late = now_ms - sessionsRenewEvery() > sessionsNextDue();
    uint64_t end_us = RedisModule_MonotonicMicroseconds() + (late ? LATE_TURN_US : TURN_US);
    while (workOn(ctx, now_ms) && RedisModule_MonotonicMicroseconds() < end_us) {
    }
}

void sessionworkRun(RedisModuleCtx *ctx) {
    int64_t now_ms = RedisModule_Milliseconds();
    switch (serverWritableNow(ctx)) {
    case SERVER_WRITABLE:
        workForATurn(ctx, now_ms);
        break;
    case SERVER_WRITABLE_LATER:
        sessionsWakeAt(ctx, now_ms + RETRY_MS, now_ms);
        return;
    case SERVER_IS_REPLICA:
        sessionsForgetAll();
        return;
    }
    int64_t due_ms = sessionsNextDue();
    sessionsWakeAt(ctx, due_ms <= now_ms ? now_ms + PAUSE_MS : due_ms, now_ms);
}
