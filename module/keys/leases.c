/* See leases.h. */
#include "keys/leases.h"

#include <stddef.h>

#include "common/propagate.h"
#include "keys/encoding.h"

static bool isType(const struct leases *leases, int type) {
    return leases->key ? RedisModule_KeyType(leases->key) == type
                       : type == REDISMODULE_KEYTYPE_EMPTY;
}

/* Whether a score can be the end of a lease: another client may have written any score. */
static bool isEnd(double score) {
    return score >= 1;
}

static int64_t leasesFromScore(double score) {
    if (!isEnd(score)) {
        return 0;
    }
    return score < 0x1p63 ? (int64_t)score : LEASES_NO_END;
}

static double toScore(int64_t end_ms) {
    return end_ms == LEASES_NO_END ? REDISMODULE_POSITIVE_INFINITE : (double)end_ms;
}

/* A double has 53 bits: up to 2^53 it represents every millisecond, up to 2^63 every 1,024th. */
int64_t leasesKeptEnd(int64_t end_ms) {
    const int64_t exact_to = INT64_C(1) << 53, step = 1024;
    return end_ms == LEASES_NO_END || end_ms <= exact_to ? end_ms : end_ms - end_ms % step;
}

/* The first or the last end of the sorted set, which must not be empty. Stores its field too, if
 * `field` is not NULL. */
static int64_t leasesEndAt(struct leases *leases, bool last, RedisModuleString **field) {
    double score = 0;
    if (last) {
        RedisModule_ZsetLastInScoreRange(leases->key, REDISMODULE_NEGATIVE_INFINITE,
                                         REDISMODULE_POSITIVE_INFINITE, 0, 0);
    } else {
        RedisModule_ZsetFirstInScoreRange(leases->key, REDISMODULE_NEGATIVE_INFINITE,
                                          REDISMODULE_POSITIVE_INFINITE, 0, 0);
    }
    RedisModuleString *element = RedisModule_ZsetRangeCurrentElement(leases->key, &score);
    RedisModule_ZsetRangeStop(leases->key);
    if (field) {
        *field = element;
    } else if (element) {
        RedisModule_FreeString(leases->ctx, element);
    }
    return leasesFromScore(score);
}

void leasesOpen(struct leases *leases, const struct leasesLock *lock, enum keyAccess access) {
    leases->ctx = lock->ctx;
    leases->name = keynamesSide(lock->ctx, KEYNAMES_LEASES, lock->name);
    leases->key = keynamesOpenSide(lock->ctx, lock->name, leases->name, access);
    leases->in_use = keynamesSideIsInUse(lock->name, leases->key, access);
    leases->key_end_ms = lock->key_end_ms;
    leases->freshness = LEASES_UNKNOWN;
}

/* MIGRATE and RESTORE pass a TTL on as the time that is left, so that a key that they move ends
 * later by the time that this takes. If the set ends a little later than its last lease, it has
 * been moved, and the lock with it. */
static bool haveMoved(const struct leases *leases, int64_t last_end_ms) {
    const int64_t longest_ms = 10000;
    int64_t set_end_ms = RedisModule_GetAbsExpire(leases->key);
    return set_end_ms > last_end_ms && set_end_ms - last_end_ms <= longest_ms &&
           leases->key_end_ms >= last_end_ms && leases->key_end_ms - last_end_ms <= longest_ms;
}

static bool areOfThisLock(struct leases *leases) {
    int64_t last_end_ms = leasesEndAt(leases, true, NULL);
    return last_end_ms == leases->key_end_ms || haveMoved(leases, last_end_ms);
}

bool leasesAreStale(struct leases *leases) {
    if (leases->freshness == LEASES_UNKNOWN) {
        bool fresh = isType(leases, REDISMODULE_KEYTYPE_ZSET) && areOfThisLock(leases);
        leases->freshness = fresh ? LEASES_FRESH : LEASES_STALE;
    }
    return leases->freshness == LEASES_STALE;
}

void leasesClose(struct leases *leases) {
    if (leases->name) {
        RedisModule_CloseKey(leases->key);
        RedisModule_FreeString(leases->ctx, leases->name);
        leases->name = NULL;
        leases->key = NULL;
    }
}

bool leasesIsWrongType(const struct leases *leases) {
    return !isType(leases, REDISMODULE_KEYTYPE_ZSET) && !isType(leases, REDISMODULE_KEYTYPE_EMPTY);
}

/* Whether the set is neither stale nor empty. It is empty if another client has written the holds
 * directly. */
static bool knows(struct leases *leases) {
    return !leasesAreStale(leases) && isType(leases, REDISMODULE_KEYTYPE_ZSET);
}

size_t leasesLength(const struct leases *leases) {
    return isType(leases, REDISMODULE_KEYTYPE_ZSET) ? RedisModule_ValueLength(leases->key) : 0;
}

int64_t leasesEndOf(struct leases *leases, RedisModuleString *field) {
    double score;
    if (!knows(leases) || RedisModule_ZsetScore(leases->key, field, &score) != REDISMODULE_OK) {
        return leases->key_end_ms;
    }
    return isEnd(score) ? leasesFromScore(score) : leases->key_end_ms;
}

void leasesSet(struct leases *leases, RedisModuleString *field, int64_t end_ms) {
    if (!leases->key || leasesIsWrongType(leases)) {
        return;
    }
    RedisModule_ZsetAdd(leases->key, toScore(end_ms), field, NULL);
    propagateScore(leases->ctx, leases->name, field, end_ms);
    leases->freshness = LEASES_FRESH;
}

void leasesRemove(struct leases *leases, RedisModuleString *field) {
    int removed = 0;
    if (isType(leases, REDISMODULE_KEYTYPE_ZSET)) {
        RedisModule_ZsetRem(leases->key, field, &removed);
    }
    if (removed) {
        propagateUnscored(leases->ctx, leases->name, field);
    }
}

void leasesGrowTree(struct leases *leases) {
    encodingGrowSet(leases->ctx, leases->key);
}

void leasesClear(struct leases *leases) {
    if (isType(leases, REDISMODULE_KEYTYPE_ZSET)) {
        RedisModule_UnlinkKey(leases->key); /* may be large: freed in the background */
        propagateDeleted(leases->ctx, leases->name);
    }
    leases->freshness = LEASES_STALE;
}

int64_t leasesFirstEnd(struct leases *leases) {
    return knows(leases) ? leasesEndAt(leases, false, NULL) : leases->key_end_ms;
}

int64_t leasesLastEnd(struct leases *leases) {
    return knows(leases) ? leasesEndAt(leases, true, NULL) : leases->key_end_ms;
}

/* How many scores that are no time are removed at once. */
#define TIMELESS_AT_ONCE 64

/* A hold whose score is no time ends with the key, as does one without a score. */
RedisModuleString *leasesFirstExpired(struct leases *leases, int64_t now_ms) {
    int dropped = 0;
    while (knows(leases)) {
        RedisModuleString *field = NULL;
        int64_t end_ms = leasesEndAt(leases, false, &field);
        if (end_ms > 0 && leaseExpired(end_ms, now_ms)) {
            return field;
        }
        bool drops = end_ms == 0 && dropped++ < TIMELESS_AT_ONCE;
        if (drops) {
            leasesRemove(leases, field);
        }
        RedisModule_FreeString(leases->ctx, field);
        if (!drops) {
            break;
        }
    }
    return NULL;
}

RedisModuleString *leasesLastField(struct leases *leases, int64_t now_ms) {
    if (!knows(leases)) {
        return NULL;
    }
    RedisModuleString *field = NULL;
    if (leaseExpired(leasesEndAt(leases, true, &field), now_ms) && field) {
        RedisModule_FreeString(leases->ctx, field);
        field = NULL;
    }
    return field;
}

RedisModuleString *leasesOtherThatLives(struct leases *leases, RedisModuleString *field,
                                        int64_t now_ms) {
    RedisModuleString *found = NULL;
    RedisModule_ZsetLastInScoreRange(leases->key, (double)now_ms, REDISMODULE_POSITIVE_INFINITE, 0,
                                     0);
    while (!found && !RedisModule_ZsetRangeEndReached(leases->key)) { /* at most twice */
        found = RedisModule_ZsetRangeCurrentElement(leases->key, NULL);
        if (RedisModule_StringCompare(found, field) == 0) {
            RedisModule_FreeString(leases->ctx, found);
            found = NULL;
        }
        RedisModule_ZsetRangePrev(leases->key);
    }
    RedisModule_ZsetRangeStop(leases->key);
    return found;
}

void leasesSetKeyEnd(struct leases *leases, int64_t key_end_ms) {
    leases->key_end_ms = key_end_ms;
    if (isType(leases, REDISMODULE_KEYTYPE_ZSET)) {
        RedisModule_SetAbsExpire(leases->key,
                                 key_end_ms == LEASES_NO_END ? REDISMODULE_NO_EXPIRE : key_end_ms);
        propagateLease(leases->ctx, leases->name, key_end_ms);
    }
}
