/* See several.h. Rule numbers are those of docs/design.md. */
#include "grant/several.h"

#include <stdbool.h>

#include "waits/deadlock.h"
#include "waits/events.h"
#include "waits/fairness.h"
#include "keys/fairqueue.h"
#include "grant/giveback.h"
#include "core/hashmap.h"
#include "grant/joint.h"
#include "core/mem.h"
#include "grant/pass.h"
#include "grant/queueing.h"
#include "server/stats.h"
#include "server/turn.h"

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
                                   const struct severalRequest *request) {
    struct queueingKey *keys = memAlloc(joint->count * sizeof(*keys));
    for (size_t i = 0; i < joint->count; i++) {
        keys[i] = (struct queueingKey){.holds = joint->keys[i].holds};
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
    enum grantResult result = queueingBegin(ctx, &queueing, &waiter);
    for (size_t i = 0; result == GRANT_WAITING && i < joint->count; i++) {
        contendedWatch(ctx, keys[i].lock, holdsNextEnd(keys[i].holds), request->now_ms);
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
        return waitForAll(ctx, joint, request);
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

/* Whether the owner has a hold of this lock to give back. */
static enum grantResult check(struct holds *holds, RedisModuleString *owner) {
    enum lockMode mode;
    enum grantResult chosen = givebackMode(holds, owner, GIVE_BACK_ONLY_MODE, &mode);
    if (chosen != GRANT_DONE) {
        return chosen;
    }
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    return view.own[mode] > 0 ? GRANT_DONE : GRANT_NOT_HELD;
}

static enum grantResult checkAll(RedisModuleCtx *ctx, const struct severalNames *locks,
                                 RedisModuleString *owner, int64_t now_ms) {
    enum grantResult result = GRANT_DONE;
    for (size_t i = 0; result == GRANT_DONE && i < locks->count; i++) {
        struct holds holds;
        holdsOpen(&holds, ctx, locks->names[i], now_ms, KEY_TO_WRITE); /* takes away what is over */
        result = check(&holds, owner);
        holdsClose(&holds);
    }
    return result;
}

/* Returns how many holds the owner has left in the only mode that it has. */
static int64_t giveBackOne(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                           int64_t now_ms) {
    struct holds holds;
    enum lockMode mode;
    holdsOpen(&holds, ctx, name, now_ms, KEY_TO_WRITE);
    enum grantResult chosen = givebackMode(&holds, owner, GIVE_BACK_ONLY_MODE, &mode);
    int64_t left = chosen == GRANT_DONE ? givebackHold(&holds, owner, mode) : -1;
    holdsClose(&holds);
    return left;
}

/* Puts the names of the locks to hand on first. Returns how many they are. One handle at a time:
 * two locks may share their side keys. */
static size_t giveAllBack(RedisModuleCtx *ctx, struct severalNames *locks, RedisModuleString *owner,
                          int64_t now_ms) {
    size_t freed = 0;
    for (size_t i = 0; i < locks->count; i++) {
        if (giveBackOne(ctx, locks->names[i], owner, now_ms) == 0) {
            locks->names[freed++] = locks->names[i];
        }
    }
    return freed;
}

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
    enum grantResult result = checkAll(ctx, &distinct, owner, now_ms);
    size_t freed = result == GRANT_DONE ? giveAllBack(ctx, &distinct, owner, now_ms) : 0;
    turnBegin(); /* one for all */
    for (size_t i = 0; i < freed; i++) {
        handOn(ctx, distinct.names[i], now_ms);
    }
    turnEnd();
    outcome->count = (int64_t)freed;
    memFree(distinct.names);
    return result;
}
