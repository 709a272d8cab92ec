/* See multikey.h. */
#include "grant/multikey.h"

#include "core/mem.h"
#include "server/failpoint.h"
#include "server/server.h"
#include "server/stats.h"

struct multikey *multikeyNew(size_t room) {
    struct multikey *multikey = memAlloc(sizeof(*multikey) + room * sizeof(multikey->keys[0]));
    multikey->room = room;
    return multikey;
}

void multikeyOpen(struct multikey *multikey, RedisModuleCtx *ctx, RedisModuleString *name,
                  int64_t now_ms) {
    struct multikeyKey *key = &multikey->keys[multikey->count++];
    enum holdsShape shape = holdsOpen(&key->opened, ctx, name, now_ms, KEY_TO_WRITE);
    if (shape == HOLDS_WRONG_TYPE) {
        holdsClose(&key->opened);
    } else {
        holdsCloseLeases(&key->opened);
    }
    key->holds = &key->opened;
}

/* A lock that the caller has opened, and closes. */
static void addOpen(struct multikey *multikey, struct holds *holds) {
    multikey->keys[multikey->count++].holds = holds;
}

void multikeyClose(struct multikey *multikey) {
    for (size_t i = 0; i < multikey->count; i++) {
        if (multikey->keys[i].holds == &multikey->keys[i].opened) {
            holdsClose(&multikey->keys[i].opened);
        }
    }
    memFree(multikey);
}

static struct lock *lockOf(const struct multikeyKey *key) {
    return contendedFind(RedisModule_GetSelectedDb(key->holds->ctx), key->holds->name);
}

/* What the holds alone say of one lock. */
static enum grantResult judgeHolds(struct multikeyKey *key, RedisModuleString *owner) {
    enum grantResult checked = takeCheckKey(key->holds);
    if (checked != GRANT_DONE) {
        return checked;
    }
    struct holdsView view;
    holdsSeenBy(key->holds, owner, &view);
    key->verdict = rulesDecide(MODE_EXCLUSIVE, &view);
    switch (key->verdict) {
    case VERDICT_GRANT:
        break;
    case VERDICT_REENTER:
        return view.own[MODE_EXCLUSIVE] < RULES_MAX_HOLDS ? GRANT_DONE : GRANT_TOO_MANY_HOLDS;
    case VERDICT_WAIT:
    case VERDICT_UPGRADE:
        return GRANT_BUSY;
    case VERDICT_SELF_BLOCKED:
        return GRANT_DEADLOCK;
    }
    return GRANT_DONE;
}

/* Whether the answer for one lock outweighs that for the others: what can never be, before what can
 * be later. */
static bool outweighs(enum grantResult one, enum grantResult other) {
    static const int weights[] = {
        [GRANT_DONE] = 0,     [GRANT_BUSY] = 1,           [GRANT_TRY_AGAIN] = 2,
        [GRANT_DEADLOCK] = 3, [GRANT_TOO_MANY_HOLDS] = 4, [GRANT_WRONG_TYPE] = 5};
    return weights[one] > weights[other];
}

static bool mustStandBehind(const struct multikeyKey *key, RedisModuleString *owner) {
    struct lock *lock = lockOf(key);
    if (!lock || key->verdict == VERDICT_REENTER) {
        return false;
    }
    struct request newcomer = {.mode = MODE_EXCLUSIVE, .discipline = MULTIKEY};
    newcomer.owner = RedisModule_StringPtrLen(owner, &newcomer.owner_length);
    return waitqueueBlocks(&lock->queue, &newcomer);
}

enum grantResult multikeyJudge(struct multikey *multikey, RedisModuleString *owner, size_t *own) {
    enum grantResult result = GRANT_DONE;
    for (size_t i = 0; i < multikey->count; i++) {
        struct multikeyKey *key = &multikey->keys[i];
        enum grantResult one = judgeHolds(key, owner);
        if (one == GRANT_DONE && mustStandBehind(key, owner)) {
            one = GRANT_BUSY;
        }
        if (outweighs(one, result)) {
            result = one;
            *own = i;
        }
    }
    return result;
}

void multikeyTake(struct multikey *multikey, const struct take *take) {
    for (size_t i = 0; i < multikey->count; i++) {
        int64_t count = takeHold(multikey->keys[i].holds, take, multikey->keys[i].verdict);
        RedisModule_Assert(count > 0); /* all have been judged, and no key comes twice */
        (void)failpoint(FAILPOINT_MULTIKEY_BETWEEN);
    }
}

/* ---- for the grant pass: whether a waiter fits ---- */

static bool isAtHead(const struct position *position) {
    return waitqueueFirst(position->queue) == position;
}

/* Whether a client could write this key now. In a cluster one key of a slot may have gone ahead to
 * another node. */
static bool isServed(RedisModuleCtx *ctx, RedisModuleString *name) {
    return !serverIsCluster() || serverConsentTo(ctx, name) == SERVER_ACCEPTS;
}

/* Like judgeHolds, for who stands in all the queues. */
static enum grantResult judgeStanding(struct multikeyKey *key, const struct waiter *waiter,
                                      const struct standing *standing) {
    enum grantResult result = judgeHolds(key, waiter->owner);
    bool has_to_be_first = result == GRANT_DONE && key->verdict == VERDICT_GRANT;
    return has_to_be_first && !isAtHead(&standing->position) ? GRANT_BUSY : result;
}

static bool isOpen(const struct holds *holds, const struct standing *standing) {
    return RedisModule_StringCompare(standing->name, holds->name) == 0;
}

/* Opens one lock of the waiter and judges it; but that of the pass is open already, and whoever runs
 * the pass has asked for its key. Any other key is asked for before it is opened: the question is a
 * write by another way, which on Redis 7.0 may find the key expired, and free it under a handle. */
static enum grantResult lookAtOne(struct holds *holds, const struct waiter *waiter,
                                  const struct standing *standing) {
    struct multikeyKey key = {.holds = holds};
    if (isOpen(holds, standing)) {
        return judgeStanding(&key, waiter, standing);
    }
    if (!isServed(holds->ctx, standing->name)) {
        return GRANT_BUSY;
    }
    key.holds = &key.opened;
    holdsOpen(&key.opened, holds->ctx, standing->name, holds->now_ms, KEY_TO_WRITE);
    enum grantResult result = judgeStanding(&key, waiter, standing);
    holdsClose(&key.opened);
    return result;
}

/* Looks for a lock that does not fit; its answer is that for all. What the others would say changes
 * nothing: every such answer means to wait on, until a pass of that lock looks again, but for
 * GRANT_TOO_MANY_HOLDS, which never fits and is found before the waiter could be granted.
 *
 * Begins with the lock that was in the way the last time, and goes on from there. So as long as that
 * stays in the way, a pass opens this one only, however many the waiter wants. And since nobody
 * takes a free lock whose head waits for several, all the passes together open each about once. */
static enum grantResult lookAtEach(struct holds *holds, struct waiter *waiter) {
    enum grantResult result = GRANT_DONE;
    for (size_t i = 0; result == GRANT_DONE && i < waiter->standing_count; i++) {
        result = lookAtOne(holds, waiter, &waiter->standings[waiter->in_the_way]);
        if (result == GRANT_DONE) {
            waiter->in_the_way = (waiter->in_the_way + 1) % waiter->standing_count;
        }
    }
    return result;
}

/* ---- for the grant pass: taking them all ---- */

/* Opens all locks of the waiter but the one that is open already. */
static struct multikey *openFor(struct holds *holds, const struct waiter *waiter) {
    struct multikey *multikey = multikeyNew(waiter->standing_count);
    for (size_t i = 0; i < waiter->standing_count; i++) {
        if (isOpen(holds, &waiter->standings[i])) {
            addOpen(multikey, holds);
        } else {
            multikeyOpen(multikey, holds->ctx, waiter->standings[i].name, holds->now_ms);
        }
    }
    return multikey;
}

/* Judges them anew, together: on Redis 7.0 a lease may have ended since each was looked at. Unseen:
 * by a test, as that takes the one moment in between. */
static bool stillFit(struct multikey *multikey, const struct waiter *waiter) {
    for (size_t i = 0; i < multikey->count; i++) {
        if (judgeStanding(&multikey->keys[i], waiter, &waiter->standings[i]) != GRANT_DONE) {
            return false;
        }
    }
    return true;
}

/* Whether the owner that stands here has another position in the same queue. */
static bool standsTwice(const struct position *position) {
    const struct request *request = position->request;
    const struct position *one =
        waitqueueOfOwner(position->queue, request->owner, request->owner_length);
    return one != position || waitqueueNextOfOwner(one);
}

/* The other locks are taken too, and their own passes do not know: sets the next look at those for
 * which others wait, and has the owner's other waits there looked at. */
static void noteTaken(struct multikey *multikey, struct holds *holds, struct waiter *waiter) {
    for (size_t i = 0; i < multikey->count; i++) {
        struct position *position = &waiter->standings[i].position;
        struct lock *lock = contendedOfPosition(position);
        if (multikey->keys[i].holds == holds || lock->queue.positions.length == 1) {
            continue;
        }
        contendedWatch(holds->ctx, lock, holdsNextEnd(multikey->keys[i].holds), holds->now_ms);
        if (standsTwice(position)) {
            contendedNote(holds->ctx, lock, CONTENDED_EDITED);
        }
    }
}

static void grantOpen(struct multikey *multikey, struct holds *holds, struct waiter *waiter) {
    struct take take = takeOfWaiter(waiter);
    multikeyTake(multikey, &take);
    noteTaken(multikey, holds, waiter);
    for (size_t i = 1; i < multikey->count; i++) {
        statsCount(STATS_GRANTED_AFTER_WAIT); /* the first is counted with the waiter */
    }
    waitersGrant(holds->ctx, waiter, (int64_t)multikey->count, holds->now_ms);
}

static bool grantAll(struct holds *holds, struct waiter *waiter) {
    struct multikey *multikey = openFor(holds, waiter);
    bool fit = stillFit(multikey, waiter);
    if (fit) {
        grantOpen(multikey, holds, waiter);
    }
    multikeyClose(multikey);
    return fit;
}

bool multikeyGrant(struct holds *holds, struct waiter *waiter) {
    holdsCloseLeases(holds); /* as multikeyOpen does, because of the others */
    enum grantResult result = lookAtEach(holds, waiter);
    if (result == GRANT_TOO_MANY_HOLDS) {
        waitersEnd(holds->ctx, waiter, WAITERS_TOO_MANY_HOLDS);
        return true;
    }
    return result == GRANT_DONE && grantAll(holds, waiter);
}
