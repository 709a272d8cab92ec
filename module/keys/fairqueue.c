/* See fairqueue.h. */
#include "keys/fairqueue.h"

#include "common/config.h"
#include "common/failpoint.h"
#include "common/propagate.h"
#include "common/quarantine.h"
#include "core/features.h"
#include "keys/encoding.h"
#include "keys/ownerfield.h"

/* A ticket below this is no time that the module has written: it would be before 2002. */
#define LEAST_TICKET INT64_C(1000000000000000)

/* From when waits of an earlier life count; and from when their positions are reserved, which may
 * be the end of a quarantine. */
static int64_t restarted_at_ms, kept_from_ms;

static struct fairqueueNames makeNames(RedisModuleString *name) {
    return (struct fairqueueNames){keynamesSide(NULL, "lock:queue:", name),
                                   keynamesSide(NULL, "lock:timeout:", name)};
}

static struct fairqueueNames share(const struct fairqueueNames *names) {
    RedisModule_RetainString(NULL, names->queue);
    RedisModule_RetainString(NULL, names->timeout);
    return *names;
}

static struct fairqueueNames namesOf(RedisModuleString *name, struct fairqueueNames *kept) {
    if (!kept) {
        return makeNames(name);
    }
    if (!kept->queue) {
        *kept = makeNames(name);
    }
    return share(kept);
}

void fairqueueForgetNames(struct fairqueueNames *names) {
    RedisModule_FreeString(NULL, names->queue);
    RedisModule_FreeString(NULL, names->timeout);
    *names = (struct fairqueueNames){0};
}

static void fairqueueOpenKeys(struct fairqueue *fq, RedisModuleString *name,
                              enum keyAccess access) {
    fq->queue = keynamesOpenSide(fq->ctx, name, fq->names.queue, access);
    fq->timeout = keynamesOpenSide(fq->ctx, name, fq->names.timeout, access);
    fq->in_use = keynamesSideIsInUse(name, fq->queue, access) ||
                 keynamesSideIsInUse(name, fq->timeout, access);
}

void fairqueueOpenToWrite(struct fairqueue *fq, RedisModuleCtx *ctx, RedisModuleString *name,
                          struct fairqueueNames *kept) {
    fq->ctx = ctx;
    fq->names = namesOf(name, kept);
    fairqueueOpenKeys(fq, name, KEY_TO_WRITE);
}

void fairqueueOpenToRead(struct fairqueue *fq, RedisModuleCtx *ctx, RedisModuleString *name) {
    fq->ctx = ctx;
    fq->names = makeNames(name);
    fairqueueOpenKeys(fq, name, KEY_TO_READ);
}

void fairqueueClose(struct fairqueue *fq) {
    RedisModule_CloseKey(fq->queue);
    RedisModule_CloseKey(fq->timeout);
    fairqueueForgetNames(&fq->names);
}

/* A key that was opened to read and does not exist is NULL. */
static int fairqueueTypeOf(RedisModuleKey *key) {
    return key ? RedisModule_KeyType(key) : REDISMODULE_KEYTYPE_EMPTY;
}

static bool isUsable(RedisModuleKey *key) {
    int type = fairqueueTypeOf(key);
    return type == REDISMODULE_KEYTYPE_EMPTY || type == REDISMODULE_KEYTYPE_ZSET;
}

enum result fairqueueCheck(const struct fairqueue *fq) {
    if (fq->in_use) {
        return RESULT_KEY_IN_USE;
    }
    return isUsable(fq->queue) && isUsable(fq->timeout) ? RESULT_DONE : RESULT_WRONG_TYPE;
}

static void expireAt(struct fairqueue *fq, RedisModuleKey *key, RedisModuleString *name,
                     int64_t expire_ms) {
    if (fairqueueTypeOf(key) == REDISMODULE_KEYTYPE_ZSET) {
        RedisModule_SetAbsExpire(key, expire_ms);
        propagateLease(fq->ctx, name, expire_ms);
    }
}

/* A member of one of the keys, and its score. */
struct score {
    RedisModuleString *owner;
    int64_t value;
    int64_t expire_ms; /* if this creates the key */
};

static void setScore(struct fairqueue *fq, RedisModuleKey *key, RedisModuleString *name,
                     const struct score *score) {
    if (!isUsable(key)) {
        return;
    }
    bool is_new = fairqueueTypeOf(key) == REDISMODULE_KEYTYPE_EMPTY;
    bool forever = score->value == FAIRQUEUE_NO_END;
    double value = forever ? REDISMODULE_POSITIVE_INFINITE : (double)score->value;
    RedisModule_ZsetAdd(key, value, score->owner, NULL);
    propagateScore(fq->ctx, name, score->owner, score->value);
    if (is_new) {
        expireAt(fq, key, name, score->expire_ms);
    }
}

void fairqueuePut(struct fairqueue *fq, const struct fairposition *position, int64_t expire_ms) {
    const struct score ticket = {position->owner, position->ticket, expire_ms};
    setScore(fq, fq->queue, fq->names.queue, &ticket);
    (void)failpoint(FAILPOINT_FAIR_BETWEEN);
    fairqueueSetEnd(fq, position->owner, position->end_ms, expire_ms);
}

void fairqueueGrowEncoding(struct fairqueue *fq) {
    encodingGrowSet(fq->ctx, fq->queue);
    encodingGrowSet(fq->ctx, fq->timeout);
}

void fairqueueSetEnd(struct fairqueue *fq, RedisModuleString *owner, int64_t end_ms,
                     int64_t expire_ms) {
    const struct score end = {owner, end_ms, expire_ms};
    setScore(fq, fq->timeout, fq->names.timeout, &end);
}

static void removeScore(struct fairqueue *fq, RedisModuleKey *key, RedisModuleString *name,
                        RedisModuleString *owner) {
    int removed = 0;
    if (fairqueueTypeOf(key) == REDISMODULE_KEYTYPE_ZSET) {
        RedisModule_ZsetRem(key, owner, &removed);
    }
    if (removed) {
        propagateUnscored(fq->ctx, name, owner);
    }
}

void fairqueueRemove(struct fairqueue *fq, RedisModuleString *owner) {
    removeScore(fq, fq->queue, fq->names.queue, owner);
    removeScore(fq, fq->timeout, fq->names.timeout, owner);
}

static void fairqueueClearKey(struct fairqueue *fq, RedisModuleKey *key, RedisModuleString *name) {
    if (fairqueueTypeOf(key) == REDISMODULE_KEYTYPE_ZSET) {
        RedisModule_UnlinkKey(key); /* may be large: freed in the background */
        propagateDeleted(fq->ctx, name);
    }
}

void fairqueueClear(struct fairqueue *fq) {
    fairqueueClearKey(fq, fq->queue, fq->names.queue);
    fairqueueClearKey(fq, fq->timeout, fq->names.timeout);
}

void fairqueueExpireAt(struct fairqueue *fq, int64_t expire_ms) {
    expireAt(fq, fq->queue, fq->names.queue, expire_ms);
    expireAt(fq, fq->timeout, fq->names.timeout, expire_ms);
}

/* A score as a time or a ticket. A score that another client has written is cut to what fits. */
static int64_t fairqueueFromScore(double score) {
    if (!(score > 0)) {
        return 0;
    }
    return score < 9e18 ? (int64_t)score : FAIRQUEUE_NO_END;
}

static int64_t fairqueueEndOf(struct fairqueue *fq, RedisModuleString *owner) {
    double score = 0;
    if (fairqueueTypeOf(fq->timeout) == REDISMODULE_KEYTYPE_ZSET) {
        RedisModule_ZsetScore(fq->timeout, owner, &score);
    }
    return fairqueueFromScore(score);
}

/* At least 1: ticket 0 means that a waiter has none yet. */
static int64_t ticketOf(double score) {
    int64_t ticket = fairqueueFromScore(score);
    return ticket > 1 ? ticket : 1;
}

size_t fairqueueLength(struct fairqueue *fq) {
    bool is_zset = fairqueueTypeOf(fq->queue) == REDISMODULE_KEYTYPE_ZSET;
    return is_zset ? RedisModule_ValueLength(fq->queue) : 0;
}

static void rangeStart(RedisModuleKey *key, enum fairqueueOrder order) {
    if (order == FAIRQUEUE_FROM_FIRST) {
        RedisModule_ZsetFirstInScoreRange(key, REDISMODULE_NEGATIVE_INFINITE,
                                          REDISMODULE_POSITIVE_INFINITE, 0, 0);
    } else {
        RedisModule_ZsetLastInScoreRange(key, REDISMODULE_NEGATIVE_INFINITE,
                                         REDISMODULE_POSITIVE_INFINITE, 0, 0);
    }
}

static void rangeGoOn(RedisModuleKey *key, enum fairqueueOrder order) {
    if (order == FAIRQUEUE_FROM_FIRST) {
        RedisModule_ZsetRangeNext(key);
    } else {
        RedisModule_ZsetRangePrev(key);
    }
}

size_t fairqueueEach(struct fairqueue *fq, const struct fairqueueWalk *walk) {
    size_t foreign = 0;
    if (fairqueueTypeOf(fq->queue) != REDISMODULE_KEYTYPE_ZSET) {
        return 0;
    }
    rangeStart(fq->queue, walk->order);
    for (int64_t i = 0; i < walk->most && !RedisModule_ZsetRangeEndReached(fq->queue); i++) {
        double score;
        RedisModuleString *owner = RedisModule_ZsetRangeCurrentElement(fq->queue, &score);
        struct fairposition position = {owner, ticketOf(score), fairqueueEndOf(fq, owner)};
        if (ownerfieldIsOwner(owner)) {
            walk->visit(&position, walk->context);
        } else {
            foreign++;
        }
        RedisModule_FreeString(fq->ctx, owner);
        rangeGoOn(fq->queue, walk->order);
    }
    RedisModule_ZsetRangeStop(fq->queue);
    return foreign;
}

void fairqueueRestarted(int64_t now_ms) {
    restarted_at_ms = kept_from_ms = now_ms;
    fairqueueMayHaveRestored();
}

void fairqueueQuarantineEnded(int64_t now_ms) {
    kept_from_ms = now_ms;
    fairqueueMayHaveRestored();
}

void fairqueueMayHaveRestored(void) {
    featuresSet(FEATURE_RESTORED, true);
}

bool fairqueueHasRestored(int64_t now_ms) {
    bool has_restored = featuresHas(FEATURE_RESTORED) && now_ms < fairqueueRestoredEnd();
    featuresSet(FEATURE_RESTORED, has_restored);
    return has_restored;
}

int64_t fairqueueRestoredEnd(void) {
    /* A configured time is far below the largest time. */
    return quarantineEndOr(kept_from_ms) + configFairReserveMs();
}

int64_t fairqueueCountedFrom(int64_t since_ms) {
    return since_ms > restarted_at_ms ? since_ms : restarted_at_ms;
}

int64_t fairqueueArrival(int64_t ticket, int64_t now_ms) {
    int64_t arrived_ms = ticket < LEAST_TICKET ? restarted_at_ms : ticket / 1000;
    return arrived_ms < now_ms ? arrived_ms : now_ms;
}
