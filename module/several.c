/* See several.h. Rule numbers are those of docs/design.md. */
#include "several.h"

#include <stdbool.h>

#include "deadlock.h"
#include "events.h"
#include "fairness.h"
#include "fairqueue.h"
#include "giveback.h"
#include "hashmap.h"
#include "joint.h"
#include "mem.h"
#include "pass.h"
#include "queueing.h"
#include "stats.h"

/* ---- the names ---- */

/* The same names, each once. Free `names` with memFree; they are the caller's still. */
static struct severalNames withoutRepeats(const struct severalNames *given) {
    struct severalNames distinct = {memAlloc(given->count * sizeof(given->names[0])), 0};
    struct mapEntry *entries = memAlloc(given->count * sizeof(*entries));
    struct map seen = {0};
    for (size_t i = 0; i < given->count; i++) {
        size_t length;
        const char *bytes = RedisModule_StringPtrLen(given->names[i], &length);
        if (!mapFind(&seen, bytes, length)) {
            mapAdd(&seen, &entries[distinct.count], bytes, length);
            distinct.names[distinct.count++] = given->names[i];
        }
    }
    for (size_t i = 0; i < distinct.count; i++) {
        mapRemove(&seen, &entries[i]);
    }
    memFree(entries);
    return distinct;
}

static struct joint *openAll(RedisModuleCtx *ctx, const struct severalNames *locks,
                             int64_t now_ms) {
    struct joint *joint = jointNew(locks->count);
    for (size_t i = 0; i < locks->count; i++) {
        jointOpen(joint, ctx, locks->names[i], now_ms);
    }
    return joint;
}

/* ---- acquiring ---- */

static enum grantResult takeAll(struct joint *joint, const struct take *take,
                                struct grantOutcome *outcome) {
    jointTake(joint, take);
    for (size_t i = 0; i < joint->count; i++) {
        bool again = joint->keys[i].verdict == VERDICT_REENTER;
        statsCount(again ? STATS_GRANTED_BY_REENTRY : STATS_GRANTED_AT_ONCE);
    }
    outcome->count = (int64_t)joint->count;
    return GRANT_DONE;
}

static enum grantResult waitForAll(RedisModuleCtx *ctx, struct joint *joint,
                                   const struct severalRequest *request,
                                   struct grantOutcome *outcome) {
    struct queueingKey *keys = memAlloc(joint->count * sizeof(*keys));
    for (size_t i = 0; i < joint->count; i++) {
        keys[i].holds = joint->keys[i].holds;
        keys[i].held = joint->keys[i].verdict == VERDICT_REENTER;
    }
    struct queueing queueing = {
        .take = &request->take,
        .discipline = JOINT,
        .block_ms = request->block_ms,
        .now_ms = request->now_ms,
        .keys = keys,
        .key_count = joint->count,
    };
    struct waiter *waiter;
    enum grantResult result = queueingBegin(ctx, &queueing, &waiter, outcome);
    for (size_t i = 0; result == GRANT_WAITING && i < joint->count; i++) {
        contendedWatch(ctx, keys[i].lock, holdsNextEnd(joint->keys[i].holds), request->now_ms);
    }
    memFree(keys);
    return result;
}

/* The owner holds one of the keys as another kind of lock. */
static enum grantResult waitsForItself(RedisModuleCtx *ctx, RedisModuleString *name,
                                       const struct severalRequest *request,
                                       struct grantOutcome *outcome) {
    if (!queueingMayWait(ctx, request->block_ms)) {
        return GRANT_BUSY;
    }
    outcome->circle = deadlockOfOne(ctx, name, request->take.owner);
    return GRANT_DEADLOCK;
}

static enum grantResult acquireIn(RedisModuleCtx *ctx, struct joint *joint,
                                  const struct severalRequest *request,
                                  struct grantOutcome *outcome) {
    size_t own = 0;
    enum grantResult result = jointJudge(joint, request->take.owner, &own);
    if (result == GRANT_DONE) {
        return takeAll(joint, &request->take, outcome);
    }
    if (result == GRANT_BUSY) {
        return waitForAll(ctx, joint, request, outcome);
    }
    if (result == GRANT_DEADLOCK) {
        return waitsForItself(ctx, joint->keys[own].holds->name, request, outcome);
    }
    return result;
}

/* Lets in what else the owner waits for there, on other connections (rule 2). */
static void passAfterTakeOfAll(RedisModuleCtx *ctx, const struct severalNames *locks,
                               const struct severalRequest *request) {
    for (size_t i = 0; contendedCount() > 0 && i < locks->count; i++) {
        struct holds holds;
        if (contendedFind(RedisModule_GetSelectedDb(ctx), locks->names[i])) {
            holdsOpen(&holds, ctx, locks->names[i], request->now_ms, KEY_TO_WRITE);
            passAfterTake(&holds, request->take.owner);
            holdsClose(&holds);
        }
    }
}

enum grantResult severalAcquire(RedisModuleCtx *ctx, const struct severalRequest *request,
                                struct grantOutcome *outcome) {
    struct severalNames locks = withoutRepeats(&request->locks);
    if (request->take.session) {
        eventsWatchClients(ctx);
    }
    for (size_t i = 0; request->now_ms < fairqueueRestoredEnd() && i < locks.count; i++) {
        fairnessLoad(ctx, locks.names[i], request->now_ms);
    }
    struct joint *joint = openAll(ctx, &locks, request->now_ms);
    enum grantResult result = acquireIn(ctx, joint, request, outcome);
    jointClose(joint);
    if (result == GRANT_DONE) {
        passAfterTakeOfAll(ctx, &locks, request);
    }
    memFree(locks.names);
    return result;
}

/* ---- giving back ---- */

/* Whether the owner has a hold of each to give back, and in which mode. */
static enum grantResult findModes(struct joint *joint, RedisModuleString *owner) {
    for (size_t i = 0; i < joint->count; i++) {
        struct jointKey *key = &joint->keys[i];
        enum grantResult chosen = givebackMode(key->holds, owner, GIVE_BACK_ONLY_MODE, &key->mode);
        if (chosen != GRANT_DONE) {
            return chosen;
        }
        struct holdsView view;
        holdsSeenBy(key->holds, owner, &view);
        if (view.own[key->mode] < 1) {
            return GRANT_NOT_HELD;
        }
    }
    return GRANT_DONE;
}

/* Puts the names of the locks to hand on first. Returns how many they are. */
static size_t giveAllBack(struct joint *joint, RedisModuleString *owner,
                          RedisModuleString **freed) {
    size_t count = 0;
    for (size_t i = 0; i < joint->count; i++) {
        struct jointKey *key = &joint->keys[i];
        if (givebackHold(key->holds, owner, key->mode) == 0) {
            freed[count++] = key->holds->name;
        }
    }
    return count;
}

/* With new handles: granting one lock to a waiter for several takes others of them. */
static void handOn(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms) {
    struct holds holds;
    holdsOpen(&holds, ctx, name, now_ms, KEY_TO_WRITE);
    passHandOn(&holds);
    holdsClose(&holds);
}

enum grantResult severalRelease(RedisModuleCtx *ctx, const struct severalNames *locks,
                                RedisModuleString *owner, int64_t now_ms,
                                struct grantOutcome *outcome) {
    struct severalNames distinct = withoutRepeats(locks);
    struct joint *joint = openAll(ctx, &distinct, now_ms);
    enum grantResult result = findModes(joint, owner);
    size_t freed = result == GRANT_DONE ? giveAllBack(joint, owner, distinct.names) : 0;
    jointClose(joint);
    for (size_t i = 0; i < freed; i++) {
        handOn(ctx, distinct.names[i], now_ms);
    }
    outcome->count = (int64_t)freed;
    memFree(distinct.names);
    return result;
}
