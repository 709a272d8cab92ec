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

/* One request at work. */
struct acquiring {
    const struct grantRequest *request;
    struct holds holds;
    struct lock *lock;   /* NULL while nobody waits */
    struct waiter *own;  /* FAIR: the owner's own place in the queue, or NULL */
    struct fairqueue fq; /* FAIR: open until the request is granted */
    bool fq_is_open;
};

static void closeFairQueue(struct acquiring *acquiring) {
    if (acquiring->fq_is_open) {
        fairqueueClose(&acquiring->fq);
        acquiring->fq_is_open = false;
    }
}

static enum grantResult take(struct acquiring *acquiring, enum verdict verdict,
                             struct grantOutcome *outcome) {
    const struct grantRequest *request = acquiring->request;
    struct holds *holds = &acquiring->holds;
    outcome->count = holdsTake(holds, request->owner, request->mode, request->lease_ms);
    if (outcome->count == 0) {
        return GRANT_TOO_MANY_HOLDS;
    }
    statsCount(verdict == VERDICT_REENTER ? STATS_GRANTED_BY_REENTRY : STATS_GRANTED_AT_ONCE);
    closeFairQueue(acquiring); /* whoever hears of the grant, and the pass, may write it */
    effectsEvent(holds->ctx, holds->name, "lock.granted");
    passBind(holds, request->owner, request->session, verdict);
    if (request->fenced) {
        outcome->count = fenceIssue(holds->ctx, holds->name, request->owner,
                                    verdict == VERDICT_REENTER, holds->now_ms);
    }
    passAfterTake(holds, request->owner);
    return GRANT_DONE;
}

/* Takes a free lock. An owner has one place in the fair queue: this request has taken it over, so a
 * client that waits there gets null. */
static enum grantResult takeFree(struct acquiring *acquiring, struct grantOutcome *outcome) {
    if (acquiring->own) {
        waitersEnd(acquiring->holds.ctx, acquiring->own, WAITERS_CANCELLED);
    }
    return take(acquiring, VERDICT_GRANT, outcome);
}

static void stand(struct acquiring *acquiring, struct waiter *waiter, bool at_head) {
    struct holds *holds = &acquiring->holds;
    struct lock *lock = acquiring->lock;
    if (!lock) {
        lock = contendedFindOrMake(RedisModule_GetSelectedDb(holds->ctx), holds->name);
    }
    if (acquiring->own) {
        waitersTakeOver(holds->ctx, acquiring->own, waiter);
    } else {
        waitersStandIn(waiter, 0, lock, at_head);
    }
    if (acquiring->fq_is_open) {
        fairnessEnter(&acquiring->fq, lock, waiter, holds->now_ms);
    }
    contendedWatch(holds->ctx, lock, holdsNextEnd(holds), holds->now_ms);
}

/* Whether the request would wait if it had to. */
static bool wouldWait(RedisModuleCtx *ctx, const struct grantRequest *request) {
    return request->block_ms != GRANT_NO_WAIT && serverMayBlock(ctx);
}

static enum grantResult beginToWait(struct acquiring *acquiring, bool at_head) {
    const struct grantRequest *request = acquiring->request;
    RedisModuleCtx *ctx = acquiring->holds.ctx;
    if (!wouldWait(ctx, request)) {
        return GRANT_BUSY;
    }
    if (!(acquiring->own && acquiring->own->bc) && !waitersHaveRoom()) {
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
    eventsWatchKeys(ctx);
    contendedWatchSlots(ctx);
    struct waiter *waiter = waitersBlock(ctx, &spec);
    if (!waiter) {
        return GRANT_BUSY;
    }
    stand(acquiring, waiter, at_head);
    return GRANT_WAITING;
}

/* Rule 3: whether the queue, rather than the holds, is in the way. */
static bool mustStandBehind(const struct acquiring *acquiring) {
    const struct grantRequest *request = acquiring->request;
    struct lock *lock = acquiring->lock;
    if (request->discipline == PLAIN || !lock) {
        return false;
    }
    if (acquiring->own) {
        return waitqueueFirst(&lock->queue) != &acquiring->own->standings[0].place;
    }
    struct request newcomer = {.mode = request->mode, .discipline = request->discipline};
    newcomer.owner = RedisModule_StringPtrLen(request->owner, &newcomer.owner_length);
    return waitqueueBlocks(&lock->queue, &newcomer);
}

/* The owner holds the key as the other kind of lock. */
static enum grantResult waitsForItself(struct acquiring *acquiring, struct grantOutcome *outcome) {
    const struct grantRequest *request = acquiring->request;
    if (!wouldWait(acquiring->holds.ctx, request)) {
        return GRANT_BUSY;
    }
    outcome->circle = circleOfOne(acquiring->holds.ctx, request->owner, request->name);
    return GRANT_DEADLOCK;
}

/* Another reader of this lock that waits to write, or NULL. It stands at the head (rule 2). */
static struct waiter *otherUpgrade(struct acquiring *acquiring) {
    struct lock *lock = acquiring->lock;
    struct place *head = lock ? waitqueueFirst(&lock->queue) : NULL;
    if (!head) {
        return NULL;
    }
    struct holdsView view;
    holdsSeenBy(&acquiring->holds, waitersOfPlace(head)->owner, &view);
    return rulesOwnsAny(&view) ? waitersOfPlace(head) : NULL;
}

/* A reader wants to write while others read. Of two the second is refused: each would wait for the
 * other to stop reading. */
static enum grantResult upgrade(struct acquiring *acquiring, struct grantOutcome *outcome) {
    const struct grantRequest *request = acquiring->request;
    RedisModuleCtx *ctx = acquiring->holds.ctx;
    struct waiter *other = otherUpgrade(acquiring);
    bool is_own = other && RedisModule_StringCompare(other->owner, request->owner) == 0;
    if (other && !is_own && wouldWait(ctx, request)) {
        outcome->circle = circleOfTwo(ctx, request->owner, other->owner, request->name);
        return GRANT_DEADLOCK;
    }
    return beginToWait(acquiring, true);
}

static enum grantResult acquireIn(struct acquiring *acquiring, struct grantOutcome *outcome) {
    const struct grantRequest *request = acquiring->request;
    struct holds *holds = &acquiring->holds;
    if (holds->shape == HOLDS_WRONG_TYPE ||
        (request->mode != MODE_EXCLUSIVE && !holdsCanLease(holds))) {
        return GRANT_WRONG_TYPE;
    }
    struct holdsView view;
    holdsSeenBy(holds, request->owner, &view);
    enum verdict verdict = rulesDecide(request->mode, &view);
    switch (verdict) {
    case VERDICT_GRANT:
        if (mustStandBehind(acquiring)) {
            return beginToWait(acquiring, false);
        }
        return takeFree(acquiring, outcome);
    case VERDICT_REENTER:
        return take(acquiring, verdict, outcome);
    case VERDICT_WAIT:
        return beginToWait(acquiring, false);
    case VERDICT_UPGRADE:
        return upgrade(acquiring, outcome);
    case VERDICT_SELF_BLOCKED:
        break;
    }
    return waitsForItself(acquiring, outcome);
}

/* What a request that has side keys has to have before it looks at the lock. */
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
    return GRANT_DONE;
}

/* Finds out who waits. Returns whether the keys of the fair queue, if the request needs them, are of
 * the right type. */
static bool lookAtQueue(struct acquiring *acquiring, RedisModuleCtx *ctx) {
    const struct grantRequest *request = acquiring->request;
    if (request->discipline == FAIR) {
        acquiring->fq_is_open = fairnessOpen(&acquiring->fq, ctx, request->name, request->now_ms);
        if (!acquiring->fq_is_open) {
            return false;
        }
    } else if (request->now_ms < fairqueueRestoredEnd()) {
        /* Places from an earlier life stand before whoever comes now, and one may be this owner's.
         */
        fairnessLoad(ctx, request->name, request->now_ms);
    }
    acquiring->lock = findContended(ctx, request->name);
    if (acquiring->lock && request->discipline == FAIR) {
        acquiring->own = fairnessFind(acquiring->lock, request->owner);
    }
    return true;
}

enum grantResult grantAcquire(RedisModuleCtx *ctx, const struct grantRequest *request,
                              struct grantOutcome *outcome) {
    enum grantResult prepared = prepare(ctx, request);
    if (prepared != GRANT_DONE) {
        return prepared;
    }
    struct acquiring acquiring = {.request = request};
    if (!lookAtQueue(&acquiring, ctx)) {
        return GRANT_WRONG_TYPE;
    }
    holdsOpen(&acquiring.holds, ctx, request->name, request->now_ms, KEY_TO_WRITE);
    enum grantResult result = acquireIn(&acquiring, outcome);
    holdsClose(&acquiring.holds);
    closeFairQueue(&acquiring);
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
