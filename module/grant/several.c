/* See several.h. Rule numbers are those of docs/design.md. */
#include "grant/several.h"

#include <stdbool.h>

#include "core/hashmap.h"
#include "core/mem.h"
#include "grant/giveback.h"
#include "grant/multikey.h"
#include "grant/pass.h"
#include "grant/queueing.h"
#include "keys/fairqueue.h"
#include "server/stats.h"
#include "server/turn.h"
#include "waits/deadlock.h"
#include "waits/events.h"
#include "waits/fairness.h"

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

static struct multikey *openAll(RedisModuleCtx *ctx, const struct severalNames *locks,
                                int64_t now_ms) {
    struct multikey *multikey = multikeyNew(locks->count);
    for (size_t i = 0; i < locks->count; i++) {
        multikeyOpen(multikey, ctx, locks->names[i], now_ms);
    }
    return multikey;
}

/* ---- acquiring ---- */

static enum grantResult takeAll(struct multikey *multikey, const struct take *take,
                                struct grantOutcome *outcome) {
    multikeyTake(multikey, take);
    for (size_t i = 0; i < multikey->count; i++) {
        bool again = multikey->keys[i].verdict == VERDICT_REENTER;
        statsCount(again ? STATS_GRANTED_BY_REENTRY : STATS_GRANTED_AT_ONCE);
    }
    outcome->count = (int64_t)multikey->count;
    return GRANT_DONE;
}

static enum grantResult waitForAll(RedisModuleCtx *ctx, struct multikey *multikey,
                                   const struct severalRequest *request) {
    struct queueingKey *keys = memAlloc(multikey->count * sizeof(*keys));
    for (size_t i = 0; i < multikey->count; i++) {
        keys[i] = (struct queueingKey){.holds = multikey->keys[i].holds};
    }
    struct queueing queueing = {
        .take = &request->take,
        .discipline = MULTIKEY,
        .block_ms = request->block_ms,
        .now_ms = request->now_ms,
        .keys = keys,
        .key_count = multikey->count,
    };
    struct waiter *waiter;
    enum grantResult result = queueingBegin(ctx, &queueing, &waiter);
    for (size_t i = 0; result == GRANT_WAITING && i < multikey->count; i++) {
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
    outcome->cycle = deadlockOfOne(ctx, name, request->take.owner);
    return GRANT_DEADLOCK;
}

static enum grantResult acquireIn(RedisModuleCtx *ctx, struct multikey *multikey,
                                  const struct severalRequest *request,
                                  struct grantOutcome *outcome) {
    size_t own = 0;
    enum grantResult result = multikeyJudge(multikey, request->take.owner, &own);
    if (result == GRANT_DONE) {
        return takeAll(multikey, &request->take, outcome);
    }
    if (result == GRANT_BUSY) {
        return waitForAll(ctx, multikey, request);
    }
    if (result == GRANT_DEADLOCK) {
        return waitsForItself(ctx, multikey->keys[own].holds->name, request, outcome);
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
    struct multikey *multikey = openAll(ctx, &locks, request->now_ms);
    enum grantResult result = acquireIn(ctx, multikey, request, outcome);
    multikeyClose(multikey);
    if (result == GRANT_DONE) {
        passAfterTakeOfAll(ctx, &locks, request);
    }
    memFree(locks.names);
    return result;
}

/* ---- releasing ---- */

/* Whether the owner has a hold of this lock to release. */
static enum grantResult check(struct holds *holds, RedisModuleString *owner) {
    enum lockMode mode;
    enum grantResult chosen = givebackMode(holds, owner, RELEASE_ONLY_MODE, &mode);
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
static int64_t releaseOne(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                          int64_t now_ms) {
    struct holds holds;
    enum lockMode mode;
    holdsOpen(&holds, ctx, name, now_ms, KEY_TO_WRITE);
    enum grantResult chosen = givebackMode(&holds, owner, RELEASE_ONLY_MODE, &mode);
    int64_t left = chosen == GRANT_DONE ? givebackHold(&holds, owner, mode) : -1;
    holdsClose(&holds);
    return left;
}

/* Puts the names of the locks to hand on first. Returns how many they are. One handle at a time:
 * two locks may share their side keys. */
static size_t releaseAll(RedisModuleCtx *ctx, struct severalNames *locks, RedisModuleString *owner,
                         int64_t now_ms) {
    size_t freed = 0;
    for (size_t i = 0; i < locks->count; i++) {
        if (releaseOne(ctx, locks->names[i], owner, now_ms) == 0) {
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
    size_t freed = result == GRANT_DONE ? releaseAll(ctx, &distinct, owner, now_ms) : 0;
    turnBegin(); /* one for all */
    for (size_t i = 0; i < freed; i++) {
        handOn(ctx, distinct.names[i], now_ms);
    }
    turnEnd();
    outcome->count = (int64_t)freed;
    memFree(distinct.names);
    return result;
}
