/* The decisions and grants of multi-key locks.
 *
 *   multikeyMakeDistinct                       removes duplicate names
 *   multikeyHaveLeasesAmong                    finds names that exclude each other
 *   multikeyOpen, multikeyClose                open and close the handles
 *   multikeyJudge, multikeyTake                check and acquire the locks, for acquire.c
 *   multikeyGrant                              grants the locks to a waiter, for pass.c
 *
 * Contracts are in multikey.h.
 */
#include "grant/multikey.h"

#include <string.h>

#include "common/failpoint.h"
#include "common/stats.h"
#include "core/hashmap.h"
#include "core/mem.h"
#include "server/server.h"
#include "server/timeslice.h"

/* ---- names ---- */

static void removeAll(struct map *map, struct mapEntry *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        mapRemove(map, &entries[i]);
    }
    memFree(entries);
}

void multikeyMakeDistinct(struct multikeyLocks *locks) {
    struct mapEntry *entries = memAlloc(locks->count * sizeof(*entries)), *known;
    struct map seen = {0};
    size_t distinct = 0;
    for (size_t i = 0; i < locks->count; i++) {
        size_t length;
        const struct multikeyLock lock = locks->each[i];
        const char *bytes = RedisModule_StringPtrLen(lock.name, &length);
        if (!(known = mapFind(&seen, bytes, length))) {
            mapAdd(&seen, &entries[distinct], bytes, length);
            locks->each[distinct++] = lock;
        } else if (lock.mode == MODE_WRITE) {
            locks->each[known - entries].mode = MODE_WRITE;
        }
    }
    removeAll(&seen, entries, distinct);
    locks->count = distinct;
}

static bool isNamedAsLeases(RedisModuleString *name) {
    static const char prefix[] = KEYNAMES_LEASES;
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    return length >= sizeof(prefix) - 1 && memcmp(bytes, prefix, sizeof(prefix) - 1) == 0;
}

static bool haveLeasesIn(RedisModuleCtx *ctx, const struct multikeyLocks *locks,
                         const struct map *names) {
    bool found = false;
    for (size_t i = 0; i < locks->count && !found; i++) {
        size_t length;
        RedisModuleString *leases = keynamesSide(ctx, KEYNAMES_LEASES, locks->each[i].name);
        const char *bytes = RedisModule_StringPtrLen(leases, &length);
        found = locks->each[i].mode != MODE_EXCLUSIVE && mapFind(names, bytes, length);
        RedisModule_FreeString(ctx, leases);
    }
    return found;
}

bool multikeyHaveLeasesAmong(RedisModuleCtx *ctx, const struct multikeyLocks *locks) {
    struct mapEntry *entries = NULL;
    struct map names = {0};
    size_t count = 0;
    for (size_t i = 0; i < locks->count; i++) {
        if (isNamedAsLeases(locks->each[i].name)) {
            size_t length;
            const char *bytes = RedisModule_StringPtrLen(locks->each[i].name, &length);
            entries = entries ? entries : memAlloc(locks->count * sizeof(*entries));
            mapAdd(&names, &entries[count++], bytes, length);
        }
    }
    bool found = count > 0 && haveLeasesIn(ctx, locks, &names);
    removeAll(&names, entries, count);
    return found;
}

/* ---- opening and closing ---- */

static struct multikey *multikeyNew(size_t room, bool may_share) {
    struct multikey *locks = memAlloc(sizeof(*locks) + room * sizeof(locks->keys[0]));
    locks->room = room;
    locks->may_share = may_share;
    return locks;
}

void multikeyCloseLeases(const struct multikey *locks, const struct multikeyKey *key) {
    if (locks->may_share) {
        holdsCloseLeases(key->holds);
    }
}

static void openOne(struct multikey *locks, RedisModuleCtx *ctx, struct multikeyLock lock,
                    int64_t now_ms) {
    struct multikeyKey *key = &locks->keys[locks->count++];
    key->mode = lock.mode;
    key->holds = &key->opened;
    if (holdsOpenToWrite(&key->opened, ctx, lock.name, now_ms) == HOLDS_WRONG_TYPE) {
        holdsClose(&key->opened);
    } else {
        multikeyCloseLeases(locks, key);
    }
}

/* Whether a lock of this name may have the leases of another one, or be such leases: it is in
 * braces, or begins as the names of leases do. */
static bool mayShare(RedisModuleString *name) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    return (length > 0 && bytes[0] == '{') || isNamedAsLeases(name);
}

struct multikey *multikeyOpen(RedisModuleCtx *ctx, const struct multikeyLocks *wanted,
                              int64_t now_ms) {
    bool may_share = false;
    for (size_t i = 0; i < wanted->count && wanted->count > 1; i++) {
        may_share |= mayShare(wanted->each[i].name);
    }
    struct multikey *locks = multikeyNew(wanted->count, may_share);
    for (size_t i = 0; i < wanted->count; i++) {
        openOne(locks, ctx, wanted->each[i], now_ms);
    }
    return locks;
}

/* Adds a lock that the caller has opened, and closes. */
static void addOpen(struct multikey *locks, struct holds *holds, enum lockMode mode) {
    struct multikeyKey *key = &locks->keys[locks->count++];
    key->holds = holds;
    key->mode = mode;
}

void multikeyClose(struct multikey *locks) {
    for (size_t i = 0; i < locks->count; i++) {
        if (locks->keys[i].holds == &locks->keys[i].opened) {
            holdsClose(&locks->keys[i].opened);
        }
    }
    memFree(locks);
}

static struct lock *lockOf(const struct multikeyKey *key) {
    return contendedFindHere(key->holds->ctx, key->holds->name);
}

/* Whether the lock can be read and changed, and its leases be written. */
static enum result checkKey(const struct multikeyKey *key, const struct request *each) {
    enum result checked = holdingCheck(key->holds);
    if (checked != RESULT_DONE || key->mode == MODE_EXCLUSIVE) {
        return checked;
    }
    return holdsSidesAreHere(key->holds) ? holdingCheckSides(key->holds, each) : RESULT_TRY_AGAIN;
}

/* The decision for one lock by its holds only, without its queue. `each` is the request for one
 * lock after the other; its mode is changed to that for this lock. */
static enum result judgeHolds(struct multikeyKey *key, struct request *each) {
    each->lock.mode = key->mode;
    enum result checked = checkKey(key, each);
    if (checked != RESULT_DONE) {
        return checked;
    }
    key->verdict = holdingDecide(key->holds, each);
    switch (key->verdict) {
    case VERDICT_GRANT:
    case VERDICT_ADD: /* of semaphores only */
    case VERDICT_HELD:
        break;
    case VERDICT_REENTER:
        return holdsOwn(key->holds, each->owner, key->mode) < RULES_MAX_HOLDS
                   ? RESULT_DONE
                   : RESULT_TOO_MANY_HOLDS;
    case VERDICT_WAIT:
    case VERDICT_UPGRADE:
        return RESULT_BUSY;
    case VERDICT_SELF_BLOCKED:
        return RESULT_DEADLOCK;
    }
    return RESULT_DONE;
}

/* Whether the result for one lock takes precedence over that for the others: what is never possible
 * comes before what is possible later. */
static bool outweighs(enum result one, enum result other) {
    static const int weights[] = {
        [RESULT_DONE] = 0,       [RESULT_BUSY] = 1,     [RESULT_TRY_AGAIN] = 2,
        [RESULT_KEY_IN_USE] = 2, [RESULT_DEADLOCK] = 3, [RESULT_TOO_MANY_HOLDS] = 4,
        [RESULT_WRONG_TYPE] = 5};
    return weights[one] > weights[other];
}

static bool multikeyMustStandBehind(const struct multikeyKey *key, RedisModuleString *owner) {
    struct lock *lock = lockOf(key);
    if (!lock || key->verdict != VERDICT_GRANT) { /* what the owner already has always fits */
        return false;
    }
    struct waitqueueNewcomer newcomer = {.mode = key->mode, .discipline = MULTIKEY};
    newcomer.owner = RedisModule_StringPtrLen(owner, &newcomer.owner_length);
    return waitqueueBlocks(&lock->queue, &newcomer);
}

enum result multikeyJudge(struct multikey *locks, const struct request *wants, size_t *because_of) {
    struct request each = *wants;
    enum result result = RESULT_DONE;
    for (size_t i = 0; i < locks->count; i++) {
        struct multikeyKey *key = &locks->keys[i];
        enum result one = judgeHolds(key, &each);
        multikeyCloseLeases(locks, key);
        if (one == RESULT_DONE && multikeyMustStandBehind(key, wants->owner)) {
            one = RESULT_BUSY;
        }
        if (outweighs(one, result)) {
            result = one;
            *because_of = i;
        }
    }
    return result;
}

void multikeyTake(struct multikey *locks, const struct request *wants,
                  struct pendingreply *pendingreply) {
    struct request each = *wants;
    for (size_t i = 0; i < locks->count; i++) {
        const struct multikeyKey *key = &locks->keys[i];
        each.lock.mode = key->mode;
        int64_t count = holdingTake(key->holds, &each, key->verdict, pendingreply);
        RedisModule_Assert(count > 0); /* all have been judged, and no key occurs twice */
        multikeyCloseLeases(locks, key);
        (void)failpoint(FAILPOINT_MULTIKEY_BETWEEN);
    }
}

/* ---- for the grant pass: whether a waiter fits ---- */

/* Whether a client could write this key now. In a cluster one key of a slot may have moved to
 * another node already. */
static bool isServed(RedisModuleCtx *ctx, RedisModuleString *name) {
    return !serverIsCluster() || serverMayWriteKey(ctx, name) == SERVER_ACCEPTS;
}

/* The same as judgeHolds, for a waiter that is in all the queues. */
static enum result judgeWanted(struct multikeyKey *key, struct request *each,
                               const struct waiterKey *wanted) {
    enum result result = judgeHolds(key, each);
    holdsCloseLeases(key->holds); /* the waiter's other locks may share them */
    bool keeps_order = result == RESULT_DONE && key->verdict == VERDICT_GRANT;
    return keeps_order && waitqueueStandsBehind(&wanted->position) ? RESULT_BUSY : result;
}

static bool isOpen(const struct holds *holds, const struct waiterKey *wanted) {
    return RedisModule_StringCompare(wanted->name, holds->name) == 0;
}

/* Opens one lock of the waiter and decides on it. The lock of the pass is open already, and the
 * caller of the pass has checked that its key may be written. For any other key that check comes
 * before it is opened: it is a write in another way, which on Redis 7.0 may find the key expired,
 * and free it under an open handle. */
static enum result multikeyLookAtOne(struct holds *holds, struct request *each,
                                     struct waiterKey *wanted) {
    struct multikeyKey key = {.holds = holds, .mode = wanted->position.mode};
    if (isOpen(holds, wanted)) {
        return judgeWanted(&key, each, wanted);
    }
    if (!isServed(holds->ctx, wanted->name)) {
        return RESULT_BUSY;
    }
    key.holds = &key.opened;
    holdsOpenToWrite(&key.opened, holds->ctx, wanted->name, holds->now_ms);
    enum result result = judgeWanted(&key, each, wanted);
    holdsClose(&key.opened);
    if (result == RESULT_KEY_IN_USE) {
        struct lock *lock = contendedOfPosition(&wanted->position);
        blockingkeyWatchInUse(holds->ctx, &lock->key, holds->now_ms);
    }
    return result;
}

/* Looks for a lock that does not fit; its result is the result for all. The other locks' results
 * change nothing: each means to go on waiting until a pass of that lock checks again, except
 * RESULT_TOO_MANY_HOLDS, which never fits and is found before the waiter could be granted.
 *
 * Begins with the lock that did not fit the last time, and goes on from there. So as long as that
 * lock does not fit, a pass opens only this one, for any number of keys. And since nobody acquires
 * a free lock whose head waits for several, all passes together open each lock about once. */
static enum result lookAtEach(struct holds *holds, struct waiter *waiter) {
    struct request each = waiter->wants;
    enum result result = RESULT_DONE;
    size_t at = waiter->in_the_way;
    for (size_t i = 0; i < waiter->key_count; i++) {
        result = multikeyLookAtOne(holds, &each, &waiter->keys[at]);
        if (result != RESULT_DONE) {
            break;
        }
        at = (at + 1) % waiter->key_count;
    }
    waitersNoteInTheWay(waiter, at);
    return result;
}

/* ---- for the grant pass: acquiring all ---- */

/* Opens all locks of the waiter except the one that is open already. */
static struct multikey *openFor(struct holds *holds, const struct waiter *waiter) {
    struct multikey *locks = multikeyNew(waiter->key_count, true);
    for (size_t i = 0; i < waiter->key_count; i++) {
        const struct waiterKey *wanted = &waiter->keys[i];
        if (isOpen(holds, wanted)) {
            addOpen(locks, holds, wanted->position.mode);
        } else {
            const struct multikeyLock lock = {wanted->name, wanted->position.mode};
            openOne(locks, holds->ctx, lock, holds->now_ms);
        }
    }
    return locks;
}

/* Decides on them again, together: on Redis 7.0 a lease may have expired since each was checked.
 * Equivalent: no test can hit the one moment in between. */
static bool stillFit(struct multikey *locks, const struct waiter *waiter) {
    struct request each = waiter->wants;
    for (size_t i = 0; i < locks->count; i++) {
        if (judgeWanted(&locks->keys[i], &each, &waiter->keys[i]) != RESULT_DONE) {
            return false;
        }
    }
    return true;
}

/* Whether the owner of this position has another one in the same queue. */
static bool standsTwice(const struct position *position) {
    const struct waitRequest *request = position->request;
    const struct position *one =
        waitqueueOfOwner(position->queue, request->owner, request->owner_length);
    return one != position || waitqueueNextOfOwner(one);
}

/* The other locks are acquired too, without a pass of their own: sets the next check of those for
 * which others wait, and has the owner's other waits there checked. */
static void multikeyNoteTaken(struct multikey *locks, struct holds *holds, struct waiter *waiter) {
    for (size_t i = 0; i < locks->count; i++) {
        struct position *position = &waiter->keys[i].position;
        struct lock *lock = contendedOfPosition(position);
        if (locks->keys[i].holds == holds || lock->queue.positions.length == 1) {
            continue;
        }
        blockingkeyWatch(holds->ctx, &lock->key, holdsNextEnd(locks->keys[i].holds), holds->now_ms);
        if (standsTwice(position)) {
            blockingkeyNote(holds->ctx, &lock->key, BLOCKINGKEY_EDITED);
            contendedOwnWaitsLeft(lock);
        }
    }
}

static void grantOpen(struct multikey *locks, struct holds *holds, struct waiter *waiter) {
    const struct waitersGranted granted = {(int64_t)locks->count,
                                           pendingreplyNew(&waiter->wants.session, holds->now_ms),
                                           holds->now_ms};
    multikeyTake(locks, &waiter->wants, granted.pendingreply);
    multikeyNoteTaken(locks, holds, waiter);
    for (size_t i = 1; i < locks->count; i++) {
        statsCount(STATS_GRANTED_AFTER_WAIT); /* the first is counted with the waiter */
    }
    waitersGrant(holds->ctx, waiter, &granted);
}

static bool grantAll(struct holds *holds, struct waiter *waiter) {
    struct multikey *locks = openFor(holds, waiter);
    bool fit = stillFit(locks, waiter);
    if (fit) {
        grantOpen(locks, holds, waiter);
    }
    multikeyClose(locks);
    return fit;
}

bool multikeyGrant(struct holds *holds, struct waiter *waiter) {
    timeslicePieceIsLong();
    holdsCloseLeases(holds); /* as multikeyOpen does, because of the others */
    enum result result = lookAtEach(holds, waiter);
    if (result == RESULT_TOO_MANY_HOLDS) {
        waitersEnd(holds->ctx, waiter, WAITERS_TOO_MANY_HOLDS);
        return true;
    }
    if (result == RESULT_TRY_AGAIN &&
        waiter->keys[waiter->in_the_way].position.mode != MODE_EXCLUSIVE) {
        waitersEnd(holds->ctx, waiter, WAITERS_TRY_AGAIN);
        return true;
    }
    return result == RESULT_DONE && grantAll(holds, waiter);
}
