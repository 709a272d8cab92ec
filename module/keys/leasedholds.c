/* See leasedholds.h. */
#include "keys/leasedholds.h"
#include "keys/holdkey.h"

#include <string.h>

#include "common/propagate.h"
#include "common/stats.h"
#include "keys/holdcount.h"
#include "keys/ownerfield.h"
#include "keys/tally.h"

/* ---- fields ---- */

RedisModuleString *leasedholdsFieldOf(struct holds *holds, RedisModuleString *owner,
                                      enum lockMode mode) {
    if (mode != MODE_WRITE) {
        RedisModule_RetainString(holds->ctx, owner);
        return owner;
    }
    char field[OWNERFIELD_LONGEST + OWNERFIELD_WRITE_LENGTH];
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    RedisModule_Assert(length <= OWNERFIELD_LONGEST);
    memcpy(field, bytes, length);
    memcpy(field + length, OWNERFIELD_WRITE, OWNERFIELD_WRITE_LENGTH);
    /* cppcheck-suppress returnDanglingLifetime ; the string has its own copy */
    return RedisModule_CreateString(holds->ctx, field, length + OWNERFIELD_WRITE_LENGTH);
}

void leasedholdsSetMode(struct holds *holds, enum lockMode mode) {
    const char *text = holdkeyModeText(mode);
    RedisModule_HashSet(holds->key, REDISMODULE_HASH_NONE, holdkeyModeField(),
                        holdkeyModeValue(mode), NULL);
    holds->mode = mode;
    propagateMode(holds->ctx, holds->name, text);
}

size_t leasedholdsCount(struct holds *holds) {
    return holdkeyFieldCount(holds) - 1; /* one is `mode` */
}

/* ---- leases ---- */

struct leases *leasedholdsLeases(struct holds *holds) {
    if (!holds->leases.name) {
        const struct leasesLock lock = {holds->ctx, holds->name, holdkeyEnd(holds)};
        leasesOpen(&holds->leases, &lock, holds->access);
    }
    return &holds->leases;
}

bool leasedholdsEndWithKey(struct holds *holds) {
    return leasedholdsCount(holds) == 1 && leasesLength(leasedholdsLeases(holds)) <= 1;
}

/* Makes the key expire with the last lease, which ends at `end_ms`. */
static void leasedholdsEndAt(struct holds *holds, int64_t end_ms) {
    struct leases *leases = leasedholdsLeases(holds);
    if (end_ms != leases->key_end_ms) {
        holdkeySetEnd(holds, end_ms);
        leasesSetKeyEnd(leases, end_ms);
    }
}

void leasedholdsSettle(struct holds *holds) {
    leasedholdsEndAt(holds, leasesLastEnd(leasedholdsLeases(holds)));
}

static void copyEnd(RedisModuleKey *key, RedisModuleString *field, RedisModuleString *value,
                    void *data) {
    (void)key;
    (void)value;
    struct holds *holds = data;
    if (holdcountIsHold(holds, field)) {
        leasesSet(leasedholdsLeases(holds), field, holdkeyEnd(holds));
    }
}

bool leasedholdsRefresh(struct holds *holds, bool adds) {
    struct leases *leases = leasedholdsLeases(holds);
    bool is_only = leasedholdsCount(holds) == 1 && !adds;
    if (is_only || !leasesAreStale(leases) || leasesIsWrongType(leases)) {
        return false;
    }
    leasesClear(leases);
    RedisModuleScanCursor *cursor = RedisModule_ScanCursorCreate();
    while (RedisModule_ScanKey(holds->key, cursor, copyEnd, holds)) {
    }
    RedisModule_ScanCursorDestroy(cursor);
    leasesSetKeyEnd(leases, holdkeyEnd(holds));
    return true;
}

/* The only hold of a lock has no lease in the set: it ends with the key. */
static void endOnlyHoldAt(struct holds *holds, int64_t end_ms) {
    struct leases *leases = leasedholdsLeases(holds);
    leasesClear(leases);
    leases->key_end_ms = end_ms;
    holdkeySetEnd(holds, end_ms);
}

/* Stores a lease, and makes the key expire with it if it is the last. Returns whether leases can be
 * stored. */
static bool putLease(struct holds *holds, RedisModuleString *field, int64_t end_ms) {
    struct leases *leases = leasedholdsLeases(holds);
    if (leasedholdsCount(holds) == 1) {
        endOnlyHoldAt(holds, end_ms);
        return true;
    }
    if (!leasesIsWrongType(leases)) {
        leasesSet(leases, field, end_ms);
        if (end_ms >= leases->key_end_ms) {
            leasedholdsEndAt(holds, end_ms);
        }
        return true;
    }
    if (leases->key_end_ms < end_ms) {
        holdkeySetEnd(holds, end_ms);
        leases->key_end_ms = end_ms;
    }
    return false;
}

void leasedholdsSetLease(struct holds *holds, RedisModuleString *field, int64_t end_ms) {
    if (putLease(holds, field, end_ms) && end_ms < leasedholdsLeases(holds)->key_end_ms) {
        leasedholdsSettle(holds);
    }
}

void leasedholdsLengthen(struct holds *holds, RedisModuleString *field, int64_t lease_ms,
                         bool is_new) {
    int64_t end_ms = leasesKeptEnd(holdkeyEndAfter(holds, lease_ms));
    if (is_new || leasesEndOf(leasedholdsLeases(holds), field) < end_ms) {
        putLease(holds, field, end_ms);
    }
}

int64_t leasedholdsLengthenHold(struct holds *holds, const struct holdsGrant *request) {
    RedisModuleString *field = leasedholdsFieldOf(holds, request->owner, request->mode);
    int64_t count = holdkeyCount(holds, field);
    leasedholdsRefresh(holds, false);
    leasedholdsLengthen(holds, field, request->lease_ms, false);
    RedisModule_FreeString(holds->ctx, field);
    return count;
}

/* ---- the holds ---- */

void leasedholdsBegin(struct holds *holds, const struct leasedholdsHold *first, int64_t end_ms) {
    RedisModuleCtx *ctx = holds->ctx;
    const char *text = holdkeyModeText(first->mode);
    /* The sum of an earlier lock, which was deleted without an event. */
    tallyForget(RedisModule_GetSelectedDb(ctx), holds->name);
    RedisModuleString *count = holdkeyCountText(ctx, first->count);
    /* Both in one call, which is cheaper for the server. */
    RedisModule_HashSet(holds->key, REDISMODULE_HASH_NONE, holdkeyModeField(),
                        holdkeyModeValue(first->mode), first->field, count, NULL);
    RedisModule_FreeString(ctx, count);
    propagateMode(ctx, holds->name, text);
    propagateCount(ctx, holds->name, first->field, first->count);
    holds->mode = first->mode;
    holds->kind = first->mode == MODE_SEMAPHORE ? HOLDS_SEMAPHORE : HOLDS_READ_WRITE;
    endOnlyHoldAt(holds, end_ms);
}

void leasedholdsClear(struct holds *holds) {
    leasesClear(leasedholdsLeases(holds));
    holdkeyDelete(holds);
}

/* Removes a field in which no hold is left; other fields remain. Without a writer the lock goes on
 * as a read lock. */
static void removeField(struct holds *holds, const struct leasedholdsHold *hold) {
    RedisModule_HashSet(holds->key, REDISMODULE_HASH_NONE, hold->field, REDISMODULE_HASH_DELETE,
                        NULL);
    propagateFieldGone(holds->ctx, holds->name, hold->field);
    holdcountNote(holds, hold->field, hold->count, 0);
    leasesRemove(leasedholdsLeases(holds), hold->field);
    if (hold->mode == MODE_WRITE) {
        leasedholdsSetMode(holds, MODE_READ);
    }
}

/* Whether all remaining holds have expired. While the lock has a holder with an unexpired lease,
 * the last lease is unexpired too. */
static bool onlyDeadAreLeft(struct holds *holds) {
    return holds->has_dead && leaseExpired(leasesLastEnd(leasedholdsLeases(holds)), holds->now_ms);
}

void leasedholdsRemove(struct holds *holds, const struct leasedholdsHold *hold) {
    if (leasedholdsCount(holds) == 1) {
        leasedholdsClear(holds);
        return;
    }
    leasedholdsRefresh(holds, false);
    removeField(holds, hold);
    if (onlyDeadAreLeft(holds)) {
        leasedholdsClear(holds);
    }
}

int64_t leasedholdsRemoveDead(struct holds *holds, RedisModuleString *field) {
    int64_t count = holdcountIsHold(holds, field) ? holdkeyCount(holds, field) : 0;
    if (count == 0) {
        leasesRemove(leasedholdsLeases(holds), field); /* another client has written it */
        return 0;
    }
    struct leasedholdsHold hold = {field, holds->mode, count};
    if (ownerfieldKindOf(field) == OWNERFIELD_OF_OWNER && holds->mode == MODE_WRITE) {
        hold.mode = MODE_READ; /* a read hold of the writer */
    }
    leasedholdsRemove(holds, &hold);
    statsCount(STATS_LEASE_ENDS);
    propagateEvent(holds->ctx, holds->name, "lock.expired");
    return count;
}

struct visitor {
    struct holds *holds;
    void (*visit)(const struct holder *holder, void *context);
    void *context;
};

static void leasedholdsVisitField(RedisModuleKey *key, RedisModuleString *field,
                                  RedisModuleString *value, void *data) {
    (void)key;
    struct visitor *visitor = data;
    struct holds *holds = visitor->holds;
    struct holder holder = {.owner = field, .mode = MODE_READ};
    if (holds->mode == MODE_SEMAPHORE) {
        holder.mode = MODE_SEMAPHORE;
    }
    if (!holdcountIsHold(holds, field) || !holdkeyParseCount(value, &holder.count) ||
        leaseExpired(leasesEndOf(leasedholdsLeases(holds), field), holds->now_ms)) {
        return;
    }
    if (ownerfieldKindOf(field) == OWNERFIELD_OF_OWNER) {
        visitor->visit(&holder, visitor->context);
        return;
    }
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(field, &length);
    holder.mode = MODE_WRITE;
    holder.owner = RedisModule_CreateString(holds->ctx, bytes, length - OWNERFIELD_WRITE_LENGTH);
    visitor->visit(&holder, visitor->context);
    RedisModule_FreeString(holds->ctx, holder.owner);
}

int64_t leasedholdsEnd(struct holds *holds, RedisModuleString *owner, enum lockMode mode) {
    RedisModuleString *field = leasedholdsFieldOf(holds, owner, mode);
    int64_t end_ms = leasesEndOf(leasedholdsLeases(holds), field);
    RedisModule_FreeString(holds->ctx, field);
    return end_ms;
}

void leasedholdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
                     void *context) {
    struct visitor visitor = {holds, visit, context};
    leasedholdsLeases(holds); /* opened now, as no key may be opened while another is scanned */
    RedisModuleScanCursor *cursor = RedisModule_ScanCursorCreate();
    while (RedisModule_ScanKey(holds->key, cursor, leasedholdsVisitField, &visitor)) {
    }
    RedisModule_ScanCursorDestroy(cursor);
}

struct others {
    struct holds *holds;
    RedisModuleString *owner;
    bool live;
};

static void lookForOther(RedisModuleKey *key, RedisModuleString *field, RedisModuleString *value,
                         void *data) {
    (void)key, (void)value;
    struct others *others = data;
    struct holds *holds = others->holds;
    if (ownerfieldKindOf(field) != OWNERFIELD_MODE &&
        RedisModule_StringCompare(field, others->owner) != 0) {
        int64_t end_ms = leasesEndOf(leasedholdsLeases(holds), field);
        others->live = others->live || !leaseExpired(end_ms, holds->now_ms);
    }
}

/* Whether, of the unexpired leases of other owners, the one that ends last has a hold. */
static bool otherHasLease(struct holds *holds, RedisModuleString *owner) {
    RedisModuleString *field = leasesOtherThatLives(leasedholdsLeases(holds), owner, holds->now_ms);
    if (!field) {
        return false;
    }
    bool has_hold = holdcountIsHold(holds, field) && holdkeyCount(holds, field) != 0;
    RedisModule_FreeString(holds->ctx, field);
    return has_hold;
}

/* If the leases show no other owner, there may still be one: another client may have written holds
 * without leases. */
bool leasedholdsOthersLive(struct holds *holds, RedisModuleString *owner) {
    struct others others = {holds, owner, otherHasLease(holds, owner)};
    RedisModuleScanCursor *cursor = RedisModule_ScanCursorCreate();
    while (!others.live && RedisModule_ScanKey(holds->key, cursor, lookForOther, &others)) {
    }
    RedisModule_ScanCursorDestroy(cursor);
    return others.live;
}
