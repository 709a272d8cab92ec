/* See acquire.h. Rule numbers are those of docs/design.md. */
#include "grant/acquire.h"

#include "grant/pass.h"
#include "grant/queueing.h"
#include "keys/fairqueue.h"
#include "keys/fence.h"
#include "keys/holds.h"
#include "keys/keynames.h"
#include "server/server.h"
#include "server/stats.h"
#include "waits/deadlock.h"
#include "waits/events.h"
#include "waits/fairness.h"
#include "waits/waiters.h"

/* One request at work. */
struct acquiring {
    const struct acquireRequest *request;
    struct holds holds;
    struct lock *lock;   /* NULL while nobody waits */
    struct waiter *own;  /* FAIR: the owner's own position in the queue, or NULL */
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
    closeFairQueue(acquiring); /* whoever hears of the grant, and the pass, may write it */
    outcome->count = takeHold(&acquiring->holds, &acquiring->request->take, verdict);
    if (outcome->count == 0) {
        return GRANT_TOO_MANY_HOLDS;
    }
    statsCount(verdict == VERDICT_REENTER ? STATS_GRANTED_BY_REENTRY : STATS_GRANTED_AT_ONCE);
    passAfterTake(&acquiring->holds, acquiring->request->take.owner);
    return GRANT_DONE;
}

/* Takes a free lock. An owner has one position in the fair queue: this request has taken it over, so a
 * client that waits there gets null. */
static enum grantResult takeFree(struct acquiring *acquiring, struct grantOutcome *outcome) {
    if (acquiring->own) {
        waitersEnd(acquiring->holds.ctx, acquiring->own, WAITERS_CANCELLED);
    }
    return take(acquiring, VERDICT_GRANT, outcome);
}

static enum grantResult beginToWait(struct acquiring *acquiring, bool at_head) {
    const struct acquireRequest *request = acquiring->request;
    struct holds *holds = &acquiring->holds;
    struct queueingKey key = {.holds = holds, .first = at_head};
    struct queueing queueing = {
        .take = &request->take,
        .discipline = request->discipline,
        .block_ms = request->block_ms,
        .now_ms = request->now_ms,
        .keys = &key,
        .key_count = 1,
        .own = acquiring->own,
    };
    struct waiter *waiter;
    enum grantResult result = queueingBegin(holds->ctx, &queueing, &waiter);
    if (result == GRANT_WAITING) {
        if (acquiring->fq_is_open) {
            fairnessEnter(&acquiring->fq, key.lock, waiter, holds->now_ms);
        }
        contendedWatch(holds->ctx, key.lock, holdsNextEnd(holds), holds->now_ms);
    }
    return result;
}

/* By rule 3: whether the queue, rather than the holds, is in the way. */
static bool mustStandBehind(const struct acquiring *acquiring) {
    const struct acquireRequest *request = acquiring->request;
    struct lock *lock = acquiring->lock;
    if (!lock) {
        return false;
    }
    if (acquiring->own) {
        return waitqueueFirst(&lock->queue) != &acquiring->own->standings[0].position;
    }
    struct request newcomer = {.mode = request->take.mode, .discipline = request->discipline};
    newcomer.owner = RedisModule_StringPtrLen(request->take.owner, &newcomer.owner_length);
    return waitqueueBlocks(&lock->queue, &newcomer);
}

/* The owner holds the key as the other kind of lock. */
static enum grantResult waitsForItself(struct acquiring *acquiring, struct grantOutcome *outcome) {
    const struct acquireRequest *request = acquiring->request;
    if (!queueingMayWait(acquiring->holds.ctx, request->block_ms)) {
        return GRANT_BUSY;
    }
    outcome->cycle = deadlockOfOne(acquiring->holds.ctx, request->name, request->take.owner);
    return GRANT_DEADLOCK;
}

/* Another reader of this lock that waits to write, or NULL. It stands at the head (rule 2). */
static struct waiter *otherUpgrade(struct acquiring *acquiring) {
    struct lock *lock = acquiring->lock;
    struct position *head = lock ? waitqueueFirst(&lock->queue) : NULL;
    if (!head) {
        return NULL;
    }
    struct holdsView view;
    holdsSeenBy(&acquiring->holds, waitersOfPosition(head)->owner, &view);
    return rulesOwnsAny(&view) ? waitersOfPosition(head) : NULL;
}

/* A reader wants to write while others read. Of two the second is refused: each would wait for the
 * other to stop reading. */
static enum grantResult upgrade(struct acquiring *acquiring, struct grantOutcome *outcome) {
    const struct acquireRequest *request = acquiring->request;
    RedisModuleCtx *ctx = acquiring->holds.ctx;
    struct waiter *other = otherUpgrade(acquiring);
    bool is_own = other && RedisModule_StringCompare(other->owner, request->take.owner) == 0;
    if (other && !is_own && queueingMayWait(ctx, request->block_ms)) {
        outcome->cycle = deadlockOfTwo(ctx, request->name, request->take.owner, other->owner);
        return GRANT_DEADLOCK;
    }
    return beginToWait(acquiring, true);
}

static enum grantResult acquireIn(struct acquiring *acquiring, struct grantOutcome *outcome) {
    const struct acquireRequest *request = acquiring->request;
    struct holds *holds = &acquiring->holds;
    enum grantResult checked = takeCheckKey(holds);
    if (checked != GRANT_DONE) {
        return checked;
    }
    if (request->take.mode != MODE_EXCLUSIVE && !holdsCanLease(holds)) {
        return GRANT_WRONG_TYPE;
    }
    struct holdsView view;
    holdsSeenBy(holds, request->take.owner, &view);
    enum verdict verdict = rulesDecide(request->take.mode, &view);
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
static enum grantResult prepare(RedisModuleCtx *ctx, const struct acquireRequest *request) {
    if (request->take.session) {
        eventsWatchClients(ctx);
    }
    if (request->take.fenced) {
        eventsWatchSwaps(ctx);
    }
    if (serverIsCluster() && takeHasSides(&request->take, request->discipline)) {
        if (!keynamesServeCluster(request->name)) {
            return GRANT_NO_SIDE_KEYS;
        }
        if (!keynamesSidesAreHere(ctx, request->name)) {
            return GRANT_TRY_AGAIN;
        }
    }
    if (request->take.fenced && fenceIsWrongType(ctx, request->name)) {
        return GRANT_WRONG_TYPE;
    }
    return GRANT_DONE;
}

/* Finds out who waits. Returns whether the keys of the fair queue, if the request needs them, are
 * of the right type. */
static bool lookAtQueue(struct acquiring *acquiring, RedisModuleCtx *ctx) {
    const struct acquireRequest *request = acquiring->request;
    if (request->discipline == FAIR) {
        acquiring->fq_is_open = fairnessOpen(&acquiring->fq, ctx, request->name, request->now_ms);
        if (!acquiring->fq_is_open) {
            return false;
        }
    } else if (request->now_ms < fairqueueRestoredEnd()) {
        /* Positions from an earlier life stand before whoever comes now, and one may be this owner's.
         */
        fairnessLoad(ctx, request->name, request->now_ms);
    }
    acquiring->lock = contendedFind(RedisModule_GetSelectedDb(ctx), request->name);
    if (acquiring->lock && request->discipline == FAIR) {
        acquiring->own = fairnessFind(acquiring->lock, request->take.owner);
    }
    return true;
}

enum grantResult acquireLock(RedisModuleCtx *ctx, const struct acquireRequest *request,
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
