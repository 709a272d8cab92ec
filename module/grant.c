/* See grant.h. Rule numbers are those of docs/design.md. */
#include "grant.h"

#include "effects.h"
#include "events.h"
#include "fairness.h"
#include "fairqueue.h"
#include "fence.h"
#include "holds.h"
#include "keynames.h"
#include "pass.h"
#include "server.h"
#include "sessions.h"
#include "stats.h"
#include "waiters.h"

/* The texts of the two circles that every lock can make, whatever lock.deadlock-detection says. */
static RedisModuleString *circleOfOne(RedisModuleCtx *ctx, RedisModuleString *owner,
                                      RedisModuleString *name) {
    const char *own = RedisModule_StringPtrLen(owner, NULL);
    const char *key = RedisModule_StringPtrLen(name, NULL);
    return RedisModule_CreateStringPrintf(ctx, "%s waits for %s held by %s", own, key, own);
}

static RedisModuleString *circleOfTwo(RedisModuleCtx *ctx, RedisModuleString *owner,
                                      RedisModuleString *other, RedisModuleString *name) {
    const char *one = RedisModule_StringPtrLen(owner, NULL);
    const char *two = RedisModule_StringPtrLen(other, NULL);
    const char *key = RedisModule_StringPtrLen(name, NULL);
    return RedisModule_CreateStringPrintf(ctx,
                                          "%s waits for %s held by %s, %s waits for %s held by %s",
                                          one, key, two, two, key, one);
}

static struct lock *findContended(RedisModuleCtx *ctx, RedisModuleString *name) {
    return contendedFind(RedisModule_GetSelectedDb(ctx), name);
}

/* ---- acquiring ---- */

static enum grantResult take(struct holds *holds, const struct grantRequest *request,
                             enum verdict verdict, struct grantOutcome *outcome) {
    outcome->count = holdsTake(holds, request->owner, request->mode, request->lease_ms);
    if (outcome->count == 0) {
        return GRANT_TOO_MANY_HOLDS;
    }
    statsCount(verdict == VERDICT_REENTER ? STATS_GRANTED_BY_REENTRY : STATS_GRANTED_AT_ONCE);
    effectsEvent(holds->ctx, holds->name, "lock.granted");
    passBind(holds, request->owner, request->session, verdict);
    if (request->fenced) {
        outcome->count = fenceIssue(holds->ctx, holds->name, request->owner,
                                    verdict == VERDICT_REENTER, holds->now_ms);
    }
    passAfterTake(holds, request->owner);
    return GRANT_DONE;
}

/* The owner's own place in the fair queue, or NULL. */
static struct waiter *ownFairPlace(RedisModuleCtx *ctx, const struct grantRequest *request) {
    struct lock *lock = findContended(ctx, request->name);
    return lock && request->discipline == FAIR ? fairnessFind(lock, request->owner) : NULL;
}

/* Takes a free lock. An owner has one place in the fair queue: this request has taken it over, so a
 * client that waits there gets null. */
static enum grantResult takeFree(struct holds *holds, const struct grantRequest *request,
                                 struct grantOutcome *outcome) {
    struct waiter *own = ownFairPlace(holds->ctx, request);
    if (own) {
        waitersEnd(holds->ctx, own, WAITERS_CANCELLED);
    }
    return take(holds, request, VERDICT_GRANT, outcome);
}

static void stand(struct holds *holds, const struct grantRequest *request, struct waiter *waiter,
                  bool at_head) {
    struct waiter *own = ownFairPlace(holds->ctx, request);
    struct lock *lock = contendedFindOrMake(RedisModule_GetSelectedDb(holds->ctx), holds->name);
    if (own) {
        waitersTakeOver(holds->ctx, own, waiter);
    } else {
        waitersStandIn(waiter, 0, lock, at_head);
    }
    if (request->discipline == FAIR) {
        fairnessEnter(holds->ctx, lock, waiter, holds->now_ms);
    }
    contendedWatch(holds->ctx, lock, holdsNextEnd(holds), holds->now_ms);
}

/* Whether the request would wait if it had to. */
static bool wouldWait(RedisModuleCtx *ctx, const struct grantRequest *request) {
    return request->block_ms != GRANT_NO_WAIT && serverMayBlock(ctx);
}

static enum grantResult beginToWait(struct holds *holds, const struct grantRequest *request,
                                    bool at_head) {
    if (!wouldWait(holds->ctx, request)) {
        return GRANT_BUSY;
    }
    struct waiter *own = ownFairPlace(holds->ctx, request);
    if (!(own && own->bc) && !waitersHaveRoom()) {
        return GRANT_TOO_MANY_WAITERS;
    }
    struct waitersSpec spec = {
        .owner = request->owner,
        .mode = request->mode,
        .discipline = request->discipline,
        .session = request->session,
        .fenced = request->fenced,
        .lease_ms = request->lease_ms,
        .block_ms = request->block_ms,
        .now_ms = request->now_ms,
        .key_count = 1,
    };
    eventsWatchKeys(holds->ctx);
    contendedWatchSlots(holds->ctx);
    struct waiter *waiter = waitersBlock(holds->ctx, &spec);
    if (!waiter) {
        return GRANT_BUSY;
    }
    stand(holds, request, waiter, at_head);
    return GRANT_WAITING;
}

/* Rule 3: whether the queue, rather than the holds, is in the way. */
static bool mustStandBehind(RedisModuleCtx *ctx, const struct grantRequest *request) {
    struct lock *lock = findContended(ctx, request->name);
    if (request->discipline == PLAIN || !lock) {
        return false;
    }
    struct waiter *own = ownFairPlace(ctx, request);
    if (own) {
        return waitqueueFirst(&lock->queue) != &own->standings[0].place;
    }
    struct request newcomer = {.mode = request->mode, .discipline = request->discipline};
    newcomer.owner = RedisModule_StringPtrLen(request->owner, &newcomer.owner_length);
    return waitqueueBlocks(&lock->queue, &newcomer);
}

/* The owner holds the key as the other kind of lock. */
static enum grantResult waitsForItself(struct holds *holds, const struct grantRequest *request,
                                       struct grantOutcome *outcome) {
    if (!wouldWait(holds->ctx, request)) {
        return GRANT_BUSY;
    }
    outcome->circle = circleOfOne(holds->ctx, request->owner, request->name);
    return GRANT_DEADLOCK;
}

/* Another reader of this lock that waits to write, or NULL. It stands at the head (rule 2). */
static struct waiter *otherUpgrade(struct holds *holds) {
    struct lock *lock = findContended(holds->ctx, holds->name);
    struct place *head = lock ? waitqueueFirst(&lock->queue) : NULL;
    if (!head) {
        return NULL;
    }
    struct holdsView view;
    holdsSeenBy(holds, waitersOfPlace(head)->owner, &view);
    return rulesOwnsAny(&view) ? waitersOfPlace(head) : NULL;
}

/* A reader wants to write while others read. Of two the second is refused: each would wait for the
 * other to stop reading. */
static enum grantResult upgrade(struct holds *holds, const struct grantRequest *request,
                                struct grantOutcome *outcome) {
    struct waiter *other = otherUpgrade(holds);
    bool is_own = other && RedisModule_StringCompare(other->owner, request->owner) == 0;
    if (other && !is_own && wouldWait(holds->ctx, request)) {
        outcome->circle = circleOfTwo(holds->ctx, request->owner, other->owner, request->name);
        return GRANT_DEADLOCK;
    }
    return beginToWait(holds, request, true);
}

static enum grantResult acquireIn(struct holds *holds, const struct grantRequest *request,
                                  struct grantOutcome *outcome) {
    if (holds->shape == HOLDS_WRONG_TYPE ||
        (request->mode != MODE_EXCLUSIVE && !holdsCanLease(holds))) {
        return GRANT_WRONG_TYPE;
    }
    struct holdsView view;
    holdsSeenBy(holds, request->owner, &view);
    enum verdict verdict = rulesDecide(request->mode, &view);
    switch (verdict) {
    case VERDICT_GRANT:
        if (mustStandBehind(holds->ctx, request)) {
            return beginToWait(holds, request, false);
        }
        return takeFree(holds, request, outcome);
    case VERDICT_REENTER:
        return take(holds, request, verdict, outcome);
    case VERDICT_WAIT:
        return beginToWait(holds, request, false);
    case VERDICT_UPGRADE:
        return upgrade(holds, request, outcome);
    case VERDICT_SELF_BLOCKED:
        break;
    }
    return waitsForItself(holds, request, outcome);
}

/* What a request that has side keys, or respects a queue, has to know and to have before it looks
 * at the lock. */
static enum grantResult prepare(RedisModuleCtx *ctx, const struct grantRequest *request) {
    if (request->session) {
        eventsWatchClients(ctx);
    }
    bool has_side_keys =
        request->fenced || request->discipline == FAIR || request->mode != MODE_EXCLUSIVE;
    if (has_side_keys && serverIsCluster() && !keynamesServeCluster(request->name)) {
        return GRANT_NO_SIDE_KEYS;
    }
    if (request->fenced && fenceIsWrongType(ctx, request->name)) {
        return GRANT_WRONG_TYPE;
    }
    if (request->discipline != FAIR && request->now_ms < fairqueueRestoredEnd()) {
        /* Places from an earlier life stand before whoever comes now, and one may be this owner's.
         */
        fairnessLoad(ctx, request->name, request->now_ms);
    }
    if (request->discipline != FAIR) {
        return GRANT_DONE;
    }
    return fairnessLoad(ctx, request->name, request->now_ms) ? GRANT_DONE : GRANT_WRONG_TYPE;
}

enum grantResult grantAcquire(RedisModuleCtx *ctx, const struct grantRequest *request,
                              struct grantOutcome *outcome) {
    enum grantResult prepared = prepare(ctx, request);
    if (prepared != GRANT_DONE) {
        return prepared;
    }
    struct holds holds;
    holdsOpen(&holds, ctx, request->name, request->now_ms, KEY_TO_WRITE);
    enum grantResult result = acquireIn(&holds, request, outcome);
    holdsClose(&holds);
    return result;
}

/* ---- giving back, renewing, forcing, cancelling ---- */

/* The mode that the caller means. */
static enum grantResult modeToGiveBack(struct holds *holds, RedisModuleString *owner,
                                       enum grantGiveBack which, enum lockMode *mode) {
    if (which != GIVE_BACK_ONLY_MODE) {
        *mode = which == GIVE_BACK_READ ? MODE_READ : MODE_WRITE;
        return GRANT_DONE;
    }
    struct holdsView view;
    *mode = MODE_EXCLUSIVE;
    if (holds->shape != HOLDS_READ_WRITE) {
        return GRANT_DONE;
    }
    *mode = MODE_READ;
    if (holds->mode == MODE_READ) {
        return GRANT_DONE;
    }
    holdsSeenBy(holds, owner, &view);
    *mode = view.own[MODE_WRITE] > 0 ? MODE_WRITE : MODE_READ;
    return view.own[MODE_READ] > 0 && view.own[MODE_WRITE] > 0 ? GRANT_BOTH_MODES : GRANT_DONE;
}

/* The owner has given the last hold in one mode back. If it has none in the other either, nothing
 * is bound any more. */
static void unbindIfGone(struct holds *holds, RedisModuleString *owner) {
    if (sessionsCount() == 0) {
        return;
    }
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    if (!rulesOwnsAny(&view)) {
        sessionsUnbind(RedisModule_GetSelectedDb(holds->ctx), holds->name, owner);
    }
}

static enum grantResult releaseIn(struct holds *holds, RedisModuleString *owner,
                                  enum grantGiveBack which, struct grantOutcome *outcome) {
    if (holds->shape == HOLDS_WRONG_TYPE) {
        return GRANT_WRONG_TYPE;
    }
    enum lockMode mode;
    enum grantResult chosen = modeToGiveBack(holds, owner, which, &mode);
    if (chosen != GRANT_DONE) {
        return chosen;
    }
    outcome->count = holdsGiveBack(holds, owner, mode);
    if (outcome->count < 0) {
        return GRANT_NOT_HELD;
    }
    statsCount(STATS_RELEASES);
    if (outcome->count == 0) {
        unbindIfGone(holds, owner);
        effectsEvent(holds->ctx, holds->name, "lock.released");
        passHandOn(holds);
    }
    return GRANT_DONE;
}

enum grantResult grantRelease(RedisModuleCtx *ctx, RedisModuleString *name,
                              RedisModuleString *owner, enum grantGiveBack which, int64_t now_ms,
                              struct grantOutcome *outcome) {
    struct holds holds;
    holdsOpen(&holds, ctx, name, now_ms, KEY_TO_WRITE);
    enum grantResult result = releaseIn(&holds, owner, which, outcome);
    holdsClose(&holds);
    return result;
}

enum grantResult grantCheck(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                            int64_t now_ms) {
    struct holds holds;
    struct holdsView view = {0};
    enum holdsShape shape = holdsOpen(&holds, ctx, name, now_ms, KEY_TO_WRITE);
    if (shape != HOLDS_WRONG_TYPE) {
        holdsSeenBy(&holds, owner, &view);
    }
    holdsClose(&holds);
    if (shape == HOLDS_WRONG_TYPE) {
        return GRANT_WRONG_TYPE;
    }
    return !view.foreign && rulesOwnsAny(&view) ? GRANT_DONE : GRANT_NOT_HELD;
}

static enum grantResult renewIn(struct holds *holds, RedisModuleString *owner, int64_t lease_ms,
                                struct grantOutcome *outcome) {
    if (holds->shape == HOLDS_WRONG_TYPE) {
        return GRANT_WRONG_TYPE;
    }
    outcome->count = holdsRenew(holds, owner, lease_ms);
    if (outcome->count == 0) {
        return GRANT_NOT_HELD;
    }
    struct lock *lock = findContended(holds->ctx, holds->name);
    if (lock) {
        contendedWatch(holds->ctx, lock, holdsNextEnd(holds), holds->now_ms);
    }
    return GRANT_DONE;
}

enum grantResult grantRenew(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                            int64_t lease_ms, enum grantBinding binding, unsigned long long session,
                            int64_t now_ms, struct grantOutcome *outcome) {
    struct holds holds;
    holdsOpen(&holds, ctx, name, now_ms, KEY_TO_WRITE);
    enum grantResult result = renewIn(&holds, owner, lease_ms, outcome);
    holdsClose(&holds);
    if (result == GRANT_DONE && binding == BINDING_NEW) {
        eventsWatchClients(ctx);
        sessionsBind(ctx, name, owner, session, now_ms);
    } else if (result == GRANT_DONE && binding == BINDING_END) {
        sessionsUnbind(RedisModule_GetSelectedDb(ctx), name, owner);
    }
    return result;
}

static enum grantResult forceIn(struct holds *holds, struct grantOutcome *outcome) {
    if (holds->shape == HOLDS_WRONG_TYPE) {
        return GRANT_WRONG_TYPE;
    }
    outcome->count = holdsForce(holds);
    if (outcome->count) {
        statsCount(STATS_FORCED);
        effectsEvent(holds->ctx, holds->name, "lock.forced");
        passHandOn(holds);
    }
    return GRANT_DONE;
}

enum grantResult grantForce(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms,
                            struct grantOutcome *outcome) {
    struct holds holds;
    holdsOpen(&holds, ctx, name, now_ms, KEY_TO_WRITE);
    enum grantResult result = forceIn(&holds, outcome);
    holdsClose(&holds);
    return result;
}

/* Returns whether the owner waited for the lock, which may be gone afterwards. */
static bool cancelIn(RedisModuleCtx *ctx, struct lock *lock, RedisModuleString *owner) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    bool any = false;
    struct place *place;
    contendedUse(lock);
    while ((place = waitqueueOfOwner(&lock->queue, bytes, length))) {
        statsCount(STATS_CANCELLED);
        waitersEnd(ctx, waitersOfPlace(place), WAITERS_CANCELLED);
        any = true;
    }
    contendedEndUse(ctx, lock);
    return any;
}

enum grantResult grantCancel(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                             int64_t now_ms, struct grantOutcome *outcome) {
    fairnessLoad(ctx, name, now_ms); /* the place may be one from an earlier life */
    struct lock *lock = findContended(ctx, name);
    outcome->count = lock && cancelIn(ctx, lock, owner);
    lock = findContended(ctx, name);
    if (lock && lock->due) {
        passRun(ctx, lock, now_ms);
    }
    if (outcome->count) {
        return GRANT_DONE;
    }
    struct holds holds;
    enum holdsShape shape = holdsOpen(&holds, ctx, name, now_ms, KEY_TO_READ);
    holdsClose(&holds);
    return shape == HOLDS_WRONG_TYPE ? GRANT_WRONG_TYPE : GRANT_DONE;
}
