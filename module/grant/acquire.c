/* Acquires locks: the decisions of a command before and after it opens a lock.
 *
 *   acquireLock     LOCK.ACQUIRE, LOCK.FAIR, LOCK.RWREAD, LOCK.RWWRITE, LOCK.SEMAPHORE
 *   acquireLocks    LOCK.MACQUIRE
 *
 * To add a reason to refuse a request, change prepare, or acquireIn, whose switch lists all
 * verdicts of rules.h. Rule numbers are those of docs/design.md.
 *
 * Contracts are in acquire.h.
 */
#include "grant/acquire.h"

#include <stdbool.h>

#include "common/stats.h"
#include "core/features.h"
#include "core/mem.h"
#include "grant/holding.h"
#include "grant/pass.h"
#include "keys/fairqueue.h"
#include "keys/holds.h"
#include "keys/keynames.h"
#include "ledger/acks.h"
#include "ledger/events.h"
#include "ledger/pendingreply.h"
#include "ledger/unconfirmed.h"
#include "queue/cancelled.h"
#include "queue/deadlock.h"
#include "queue/fairness.h"
#include "queue/waiters.h"
#include "server/server.h"
#include "server/timeslice.h"
#include "waits/contended.h"

/* The owner holds this lock as another kind of lock, so its wait would be for itself. */
static enum result waitsForItself(const struct holds *holds, const struct request *wants,
                                  struct outcome *outcome) {
    if (!waitersMayWait(holds->ctx, wants)) {
        return RESULT_BUSY;
    }
    outcome->cycle = deadlockOfOne(holds->ctx, holds->name, wants->owner);
    return RESULT_DEADLOCK;
}

/* ---- the reply when locks are acquired at once ---- */

/* NULL: the command replies; with REPLICAS the reply is sent later. */
static struct pendingreply *acquireNewAnswer(const struct request *wants) {
    return wants->replicas.count > 0 ? pendingreplyNew(&wants->session, wants->now_ms) : NULL;
}

static void dropAnswer(struct pendingreply *pendingreply) {
    if (pendingreply) {
        pendingreplyDrop(pendingreply);
    }
}

/* RESULT_DONE: the caller replies; or what acksBegin returns. */
static enum result answerOrAwait(RedisModuleCtx *ctx, const struct request *wants, int64_t number,
                                 struct pendingreply *pendingreply) {
    if (!pendingreply) {
        return RESULT_DONE;
    }
    const struct acksAnswer answer = {.replicas = wants->replicas,
                                      .number = number,
                                      .pendingreply = pendingreply,
                                      .lease_ms = wants->lease_ms,
                                      .now_ms = wants->now_ms};
    return acksBegin(ctx, &answer);
}

/* ---- one lock ---- */

/* One request in progress. */
struct acquiring {
    const struct request *wants;
    struct holds holds;
    struct lock *lock;   /* NULL while nobody waits */
    struct waiter *own;  /* FAIR: the owner's waiter in the queue, or NULL */
    struct fairqueue fq; /* FAIR: open until the request is granted */
    bool fq_is_open;
};

static void closeFairQueue(struct acquiring *acquiring) {
    if (acquiring->fq_is_open) {
        fairqueueClose(&acquiring->fq);
        acquiring->fq_is_open = false;
    }
}

static enum result acquireTake(struct acquiring *acquiring, enum verdict verdict,
                               struct outcome *outcome) {
    closeFairQueue(acquiring); /* keyspace listeners and the grant pass may write it */
    struct pendingreply *pendingreply = acquireNewAnswer(acquiring->wants);
    outcome->count = holdingTake(&acquiring->holds, acquiring->wants, verdict, pendingreply);
    if (outcome->count == 0) {
        dropAnswer(pendingreply);
        return RESULT_TOO_MANY_HOLDS;
    }
    statsCount(holdingCountedAs(verdict));
    passAfterTake(&acquiring->holds, acquiring->wants->owner);
    return answerOrAwait(acquiring->holds.ctx, acquiring->wants, outcome->count, pendingreply);
}

/* Acquires a lock that fits. An owner has one position in the fair queue, and this request has
 * taken it over: a client that waits there receives null. */
static enum result takeFree(struct acquiring *acquiring, enum verdict verdict,
                            struct outcome *outcome) {
    if (acquiring->own) {
        waitersEnd(acquiring->holds.ctx, acquiring->own, WAITERS_CANCELLED);
    }
    return acquireTake(acquiring, verdict, outcome);
}

static enum result beginToWait(struct acquiring *acquiring, bool at_head) {
    struct holds *holds = &acquiring->holds;
    const struct waitersKey key = {holds->name, acquiring->wants->lock.mode, at_head};
    const struct waitersStart start = {
        .wants = acquiring->wants, .keys = &key, .key_count = 1, .own = acquiring->own};
    struct waiter *waiter;
    enum result result = waitersBegin(holds->ctx, &start, &waiter);
    if (result == RESULT_WAITING) {
        struct lock *lock = contendedOfPosition(&waiter->keys[0].position);
        if (acquiring->fq_is_open) {
            fairnessEnter(&acquiring->fq, lock, waiter, holds->now_ms);
        }
        blockingkeyWatch(holds->ctx, &lock->key, holdsNextEnd(holds), holds->now_ms);
    }
    return result;
}

/* Whether the request has to wait because of the queue, although it fits the holds (rule 3). */
static bool acquireMustStandBehind(const struct acquiring *acquiring) {
    const struct request *wants = acquiring->wants;
    struct lock *lock = acquiring->lock;
    if (!lock) {
        return false;
    }
    if (acquiring->own) {
        return waitqueueFirst(&lock->queue) != &acquiring->own->keys[0].position;
    }
    struct waitqueueNewcomer newcomer = {.mode = wants->lock.mode, .discipline = wants->discipline};
    newcomer.owner = RedisModule_StringPtrLen(wants->owner, &newcomer.owner_length);
    return waitqueueBlocks(&lock->queue, &newcomer);
}

/* The search for an upgrade skips this many cancelled waits at most. */
#define MOST_CANCELLED_AHEAD 64

/* Another reader of this lock that waits to write, or NULL. It is at the head (rule 2); but during
 * a quarantine a reader that only waits for another read hold may be there. */
static struct waiter *otherUpgrade(struct acquiring *acquiring) {
    struct lock *lock = acquiring->lock;
    struct position *head = lock ? waitqueueFirst(&lock->queue) : NULL;
    bool is_cancelled = head && cancelledHas(waiterOfPosition(head));
    for (int i = 0; is_cancelled && i < MOST_CANCELLED_AHEAD; i++) {
        head = waitqueueNext(head);
        is_cancelled = head && cancelledHas(waiterOfPosition(head));
    }
    if (!head || is_cancelled || head->mode != MODE_WRITE) {
        return NULL;
    }
    struct holdsView view;
    holdsSeenBy(&acquiring->holds, waiterOfPosition(head)->wants.owner, &view);
    return rulesOwnsAny(&view) ? waiterOfPosition(head) : NULL;
}

/* A reader requests to write while others read. The second one that does so is refused, because
 * each would wait for the other to stop reading. */
static enum result upgrade(struct acquiring *acquiring, struct outcome *outcome) {
    const struct request *wants = acquiring->wants;
    RedisModuleCtx *ctx = acquiring->holds.ctx;
    struct waiter *other = otherUpgrade(acquiring);
    bool is_own = other && RedisModule_StringCompare(other->wants.owner, wants->owner) == 0;
    if (other && !is_own && waitersMayWait(ctx, wants)) {
        outcome->cycle =
            deadlockOfTwo(ctx, acquiring->holds.name, wants->owner, other->wants.owner);
        return RESULT_DEADLOCK;
    }
    return beginToWait(acquiring, true);
}

static enum result acquireIn(struct acquiring *acquiring, struct outcome *outcome) {
    const struct request *wants = acquiring->wants;
    struct holds *holds = &acquiring->holds;
    enum result checked = holdingCheck(holds);
    if (checked == RESULT_DONE) {
        checked = holdingCheckSides(holds, wants);
    }
    if (checked != RESULT_DONE) {
        return checked;
    }
    enum verdict verdict = holdingDecide(holds, wants);
    switch (verdict) {
    case VERDICT_GRANT:
    case VERDICT_ADD:
        if (acquireMustStandBehind(acquiring)) {
            return beginToWait(acquiring, false);
        }
        return takeFree(acquiring, verdict, outcome);
    case VERDICT_REENTER:
    case VERDICT_HELD:
        return acquireTake(acquiring, verdict, outcome);
    case VERDICT_WAIT:
        return beginToWait(acquiring, false);
    case VERDICT_UPGRADE:
        return upgrade(acquiring, outcome);
    case VERDICT_SELF_BLOCKED:
        break;
    }
    return waitsForItself(holds, wants, outcome);
}

/* The conditions that a request with side keys, or with REPLICAS, must meet before it opens the
 * lock. */
static enum result prepare(RedisModuleCtx *ctx, RedisModuleString *name,
                           const struct request *wants) {
    enum result ready = acksReady(ctx, &wants->replicas);
    if (ready != RESULT_DONE) {
        return ready;
    }
    if (wants->session.client_id) {
        eventsWatchClients(ctx);
    }
    if (serverIsCluster() && holdingHasSides(wants)) {
        if (!keynamesServeCluster(name)) {
            return RESULT_NO_SIDE_KEYS;
        }
        if (!keynamesSidesAreHere(ctx, name)) {
            return RESULT_TRY_AGAIN;
        }
    }
    return RESULT_DONE;
}

/* Loads the waiters of the fair queue into memory. RESULT_DONE, or what fairnessOpen returns. */
static enum result loadQueue(struct acquiring *acquiring, RedisModuleCtx *ctx,
                             RedisModuleString *name) {
    const struct request *wants = acquiring->wants;
    enum result loaded = RESULT_DONE;
    if (wants->discipline == FAIR) {
        loaded = fairnessOpen(&acquiring->fq, ctx, name, wants->now_ms);
        acquiring->fq_is_open = loaded == RESULT_DONE;
    } else if (fairqueueHasRestored(wants->now_ms)) {
        /* Positions that are in the keys but not in memory yet come before new ones, and one may be
         * this owner's. */
        loaded = fairnessLoad(ctx, name, wants->now_ms);
    }
    return loaded;
}

/* Finds the waiters, and the owner's own one. */
static enum result lookAtQueue(struct acquiring *acquiring, RedisModuleCtx *ctx,
                               RedisModuleString *name) {
    const struct request *wants = acquiring->wants;
    enum result loaded = loadQueue(acquiring, ctx, name);
    if (loaded != RESULT_DONE) {
        return loaded;
    }
    acquiring->lock = contendedFindHere(ctx, name);
    if (acquiring->lock && wants->discipline == FAIR) {
        acquiring->own = fairnessFind(acquiring->lock, wants->owner);
    }
    if (acquiring->own && cancelledEndIf(ctx, acquiring->own)) { /* do not take it over */
        acquiring->own = NULL;
        acquiring->lock = contendedFindHere(ctx, name);
    }
    return RESULT_DONE;
}

/* A request that may have to do with optional features, or with clients that wait. */
static enum result acquireSpecial(RedisModuleCtx *ctx, RedisModuleString *name,
                                  const struct request *wants, struct outcome *outcome) {
    unconfirmedRequested(ctx);
    enum result prepared = prepare(ctx, name, wants);
    if (prepared != RESULT_DONE) {
        return prepared;
    }
    struct acquiring acquiring = {.wants = wants};
    enum result looked = lookAtQueue(&acquiring, ctx, name);
    if (looked != RESULT_DONE) {
        return looked;
    }
    holdsOpenToWrite(&acquiring.holds, ctx, name, wants->now_ms);
    enum result result = acquireIn(&acquiring, outcome);
    holdsClose(&acquiring.holds);
    closeFairQueue(&acquiring);
    return result;
}

/* Whether only the key decides about this request: it uses no optional feature, and none is in
 * use. */
static bool acquireIsSimple(const struct request *wants) {
    return wants->discipline == PLAIN && !wants->fenced && !wants->session.client_id &&
           wants->replicas.count == 0 && !featuresInUse();
}

enum result acquireLock(RedisModuleCtx *ctx, RedisModuleString *name, const struct request *wants,
                        struct outcome *outcome) {
    if (!acquireIsSimple(wants)) {
        return acquireSpecial(ctx, name, wants, outcome);
    }
    struct acquiring acquiring = {.wants = wants};
    enum result result = RESULT_DONE;
    if (holdsOpenToWrite(&acquiring.holds, ctx, name, wants->now_ms) == HOLDS_FREE) {
        outcome->count = holdingTake(&acquiring.holds, wants, VERDICT_GRANT, NULL);
        statsCount(STATS_GRANTED_AT_ONCE);
    } else {
        result = acquireIn(&acquiring, outcome);
    }
    holdsClose(&acquiring.holds);
    return result;
}

/* ---- several locks ---- */

/* One request in progress. */
struct acquiringAll {
    RedisModuleCtx *ctx;
    const struct request *wants;
    struct multikeyLocks wanted;       /* each once */
    struct multikey *locks;            /* open, in the same order */
    struct pendingreply *pendingreply; /* the reply, if REPLICAS delays it */
};

static enum result takeAll(struct acquiringAll *acquiring, struct outcome *outcome) {
    struct multikey *locks = acquiring->locks;
    acquiring->pendingreply = acquireNewAnswer(acquiring->wants);
    multikeyTake(locks, acquiring->wants, acquiring->pendingreply);
    for (size_t i = 0; i < locks->count; i++) {
        statsCount(holdingCountedAs(locks->keys[i].verdict));
    }
    outcome->count = (int64_t)locks->count;
    return RESULT_DONE;
}

/* How the wait for each of the locks begins: at the end of every queue, upgrades too, so that two
 * such waits are in the same order wherever they meet. To be freed with memFree. */
static struct waitersKey *waitersKeysOf(const struct multikey *locks) {
    struct waitersKey *keys = memAlloc(locks->count * sizeof(*keys));
    for (size_t i = 0; i < locks->count; i++) {
        const struct multikeyKey *key = &locks->keys[i];
        keys[i] = (struct waitersKey){key->holds->name, key->mode, .at_head = false};
    }
    return keys;
}

static enum result waitForAll(struct acquiringAll *acquiring, size_t in_the_way) {
    const struct multikey *locks = acquiring->locks;
    struct waitersKey *keys = waitersKeysOf(locks);
    const struct waitersStart start = {.wants = acquiring->wants,
                                       .keys = keys,
                                       .key_count = locks->count,
                                       .in_the_way = in_the_way};
    struct waiter *waiter;
    enum result result = waitersBegin(acquiring->ctx, &start, &waiter);
    memFree(keys);
    for (size_t i = 0; result == RESULT_WAITING && i < locks->count; i++) {
        struct lock *lock = contendedOfPosition(&waiter->keys[i].position);
        blockingkeyWatch(acquiring->ctx, &lock->key, holdsNextEnd(locks->keys[i].holds),
                         acquiring->wants->now_ms);
    }
    return result;
}

static enum result acquireAll(struct acquiringAll *acquiring, struct outcome *outcome) {
    size_t because_of = 0;
    enum result result = multikeyJudge(acquiring->locks, acquiring->wants, &because_of);
    if (result == RESULT_DONE) {
        return takeAll(acquiring, outcome);
    }
    if (result == RESULT_BUSY) {
        return waitForAll(acquiring, because_of);
    }
    if (result == RESULT_DEADLOCK) {
        return waitsForItself(acquiring->locks->keys[because_of].holds, acquiring->wants, outcome);
    }
    return result;
}

static void passAfterTakeOf(const struct acquiringAll *acquiring, struct lock *lock,
                            RedisModuleString *name) {
    struct holds holds;
    if (timesliceHasEnded()) {
        blockingkeyNote(acquiring->ctx, &lock->key, BLOCKINGKEY_EDITED);
        contendedOwnWaitsLeft(lock);
        return;
    }
    holdsOpenToWrite(&holds, acquiring->ctx, name, acquiring->wants->now_ms);
    passAfterTake(&holds, acquiring->wants->owner);
    holdsClose(&holds);
}

/* Grants the owner's other waits for these locks, on other connections (rule 2). */
static void passAfterTakeOfAll(const struct acquiringAll *acquiring) {
    int db = RedisModule_GetSelectedDb(acquiring->ctx);
    timesliceBegin(); /* one time slice for all */
    for (size_t i = 0; contendedCount() > 0 && i < acquiring->wanted.count; i++) {
        RedisModuleString *name = acquiring->wanted.each[i].name;
        struct lock *lock = contendedFind(db, name);
        if (lock) {
            passAfterTakeOf(acquiring, lock, name);
        }
    }
    timesliceEnd();
}

/* RESULT_DONE, or what fairnessLoad returns for one of them. */
static enum result loadQueues(const struct acquiringAll *acquiring) {
    int64_t now_ms = acquiring->wants->now_ms;
    size_t count = fairqueueHasRestored(now_ms) ? acquiring->wanted.count : 0;
    enum result loaded = RESULT_DONE;
    for (size_t i = 0; loaded == RESULT_DONE && i < count; i++) {
        loaded = fairnessLoad(acquiring->ctx, acquiring->wanted.each[i].name, now_ms);
    }
    return loaded;
}

static enum result openAndAcquireAll(struct acquiringAll *acquiring, struct outcome *outcome) {
    acquiring->locks = multikeyOpen(acquiring->ctx, &acquiring->wanted, acquiring->wants->now_ms);
    enum result result = acquireAll(acquiring, outcome);
    multikeyClose(acquiring->locks);
    if (result == RESULT_DONE) {
        passAfterTakeOfAll(acquiring);
        result = answerOrAwait(acquiring->ctx, acquiring->wants, outcome->count,
                               acquiring->pendingreply);
    }
    return result;
}

/* Whether each lock can have the side keys that its mode needs. */
static enum result checkNames(const struct multikeyLocks *wanted) {
    for (size_t i = 0; serverIsCluster() && i < wanted->count; i++) {
        if (wanted->each[i].mode != MODE_EXCLUSIVE && !keynamesServeCluster(wanted->each[i].name)) {
            return RESULT_NO_SIDE_KEYS;
        }
    }
    return RESULT_DONE;
}

enum result acquireLocks(RedisModuleCtx *ctx, struct multikeyLocks *wanted,
                         const struct request *wants, struct outcome *outcome) {
    unconfirmedRequested(ctx);
    enum result ready = acksReady(ctx, &wants->replicas);
    if (ready == RESULT_DONE) {
        ready = checkNames(wanted);
    }
    if (ready != RESULT_DONE) {
        return ready;
    }
    multikeyMakeDistinct(wanted);
    if (multikeyHaveLeasesAmong(ctx, wanted)) {
        return RESULT_WRONG_TYPE;
    }
    struct acquiringAll acquiring = {.ctx = ctx, .wants = wants, .wanted = *wanted};
    if (wants->session.client_id) {
        eventsWatchClients(ctx);
    }
    enum result result = loadQueues(&acquiring);
    return result == RESULT_DONE ? openAndAcquireAll(&acquiring, outcome) : result;
}
