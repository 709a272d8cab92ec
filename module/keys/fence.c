/* See fence.h. */
#include "keys/fence.h"

#include <stddef.h>

#include "common/config.h"
#include "common/propagate.h"
#include "core/mem.h"
#include "keys/given.h"
#include "keys/keynames.h"
#include "server/server.h"

/* The largest token that is issued. A larger value, or one that is no number, was written by
 * another client and means nothing. */
#define LARGEST (INT64_MAX - 1)

/* Every token that this process has taken from its clock is at most this. It only grows, and never
 * because of what was read from a key. */
static int64_t by_clock;

/* One life of the data set. */
struct life {
    int64_t began; /* `by_clock` at that moment: later tokens from the clock are larger */
    uint32_t number;
};

static struct life life;
static uint32_t lives; /* how many have begun */

/* The lives of databases that have been swapped since, by database number; `number` is 0 for those
 * that have not. */
static struct {
    struct life *lives;
    int count;
} swapped;

struct fence {
    RedisModuleCtx *ctx;
    RedisModuleString *lock; /* belongs to the caller */
    RedisModuleString *name;
    RedisModuleKey *key;
};

static void fenceOpen(struct fence *fence, RedisModuleCtx *ctx, RedisModuleString *lock_name,
                      enum keyAccess access) {
    fence->ctx = ctx;
    fence->lock = lock_name;
    fence->name = keynamesSide(ctx, "lock:token:", lock_name);
    fence->key = keynamesOpenSide(ctx, lock_name, fence->name, access);
}

static void fenceClose(struct fence *fence) {
    RedisModule_CloseKey(fence->key);
    RedisModule_FreeString(fence->ctx, fence->name);
}

static int fenceTypeOf(const struct fence *fence) {
    return fence->key ? RedisModule_KeyType(fence->key) : REDISMODULE_KEYTYPE_EMPTY;
}

static int64_t readToken(struct fence *fence) {
    RedisModuleString *value = NULL;
    long long token = 0;
    if (fenceTypeOf(fence) == REDISMODULE_KEYTYPE_HASH) {
        RedisModule_HashGet(fence->key, REDISMODULE_HASH_CFIELDS, "token", &value, NULL);
    }
    if (value) {
        if (RedisModule_StringToLongLong(value, &token) != REDISMODULE_OK || token < 0 ||
            token > LARGEST) {
            token = 0; /* not issued by the module */
        }
        RedisModule_FreeString(fence->ctx, value);
    }
    return token;
}

static bool lastIsOf(struct fence *fence, RedisModuleString *owner) {
    RedisModuleString *value = NULL;
    if (fenceTypeOf(fence) == REDISMODULE_KEYTYPE_HASH) {
        RedisModule_HashGet(fence->key, REDISMODULE_HASH_CFIELDS, "owner", &value, NULL);
    }
    bool same = value && RedisModule_StringCompare(value, owner) == 0;
    if (value) {
        RedisModule_FreeString(fence->ctx, value);
    }
    return same;
}

static struct life lifeOf(int db) {
    bool later = db < swapped.count && swapped.lives[db].number > 0;
    return later ? swapped.lives[db] : life;
}

static struct life lifeOfSelected(const struct fence *fence) {
    return lifeOf(RedisModule_GetSelectedDb(fence->ctx));
}

/* Whether this process has issued the token in this life of the database; or, if it does not
 * remember the lock, can have issued it. If not, the record may be older than a token that was
 * issued since and is lost: then it must not be issued again. */
static bool isOfThisLife(const struct fence *fence, int64_t token) {
    const struct given *given = givenFind(fence->ctx, fence->lock);
    struct life now = lifeOfSelected(fence);
    if (given) {
        return given->life == now.number && given->token == token;
    }
    return token > now.began && token <= by_clock;
}

/* No token of an earlier life is larger than `began`, as long as the clocks agree. */
static struct life newLife(void) {
    int64_t now = serverMicroseconds();
    by_clock = now > by_clock ? now : by_clock;
    return (struct life){by_clock, ++lives};
}

void fenceRestarted(void) {
    life = newLife();
    memFree(swapped.lives);
    swapped.lives = NULL;
    swapped.count = 0;
}

static void makeRoomFor(int db) {
    if (db < swapped.count) {
        return;
    }
    struct life *grown = memAlloc(((size_t)db + 1) * sizeof(*grown));
    for (int i = 0; i < swapped.count; i++) {
        grown[i] = swapped.lives[i];
    }
    memFree(swapped.lives);
    swapped.lives = grown;
    swapped.count = db + 1;
}

void fenceSwapped(int first_db, int second_db) {
    makeRoomFor(first_db > second_db ? first_db : second_db);
    swapped.lives[first_db] = swapped.lives[second_db] = newLife();
}

/* The larger of the token that was read and the last one that this process has issued. */
static int64_t fenceLastOf(const struct fence *fence, int64_t read) {
    const struct given *given = givenFind(fence->ctx, fence->lock);
    return given && given->token > read ? given->token : read;
}

/* In µs, not ms: a replica that is promoted within the millisecond of tokens that it has not
 * received has to issue larger ones. A last token that is ahead of the clock affects this lock
 * only. */
static int64_t newToken(int64_t last) {
    int64_t now = serverMicroseconds();
    int64_t token = now > by_clock ? now : by_clock + 1;
    if (token <= last) {
        return last < LARGEST ? last + 1 : LARGEST;
    }
    by_clock = token;
    return token;
}

static void fenceWriteDown(struct fence *fence, int64_t token, RedisModuleString *owner,
                           int64_t now_ms) {
    if (fenceTypeOf(fence) != REDISMODULE_KEYTYPE_HASH &&
        fenceTypeOf(fence) != REDISMODULE_KEYTYPE_EMPTY) {
        return;
    }
    int64_t expire_ms = now_ms + configTokenRetentionMs();
    RedisModuleString *value = RedisModule_CreateStringFromLongLong(fence->ctx, token);
    RedisModule_HashSet(fence->key, REDISMODULE_HASH_CFIELDS, "token", value, "owner", owner, NULL);
    RedisModule_SetAbsExpire(fence->key, expire_ms);
    const struct propagateToken record = {token, owner, expire_ms};
    propagateToken(fence->ctx, fence->name, &record);
    RedisModule_FreeString(fence->ctx, value);
}

int64_t fenceIssue(const struct holds *holds, RedisModuleString *owner, bool is_reentry) {
    struct fence fence;
    fenceOpen(&fence, holds->ctx, holds->name, KEY_TO_WRITE);
    int64_t last = readToken(&fence);
    bool keeps = is_reentry && isOfThisLife(&fence, last) && lastIsOf(&fence, owner);
    int64_t token = keeps ? last : newToken(fenceLastOf(&fence, last));
    givenNote(fence.ctx, fence.lock, token, lifeOfSelected(&fence).number);
    fenceWriteDown(&fence, token, owner, holds->now_ms);
    fenceClose(&fence);
    return token;
}

int64_t fenceLast(RedisModuleCtx *ctx, RedisModuleString *name) {
    struct fence fence;
    fenceOpen(&fence, ctx, name, KEY_TO_READ);
    int64_t token = readToken(&fence);
    fenceClose(&fence);
    return token;
}

enum result fenceCheck(RedisModuleCtx *ctx, RedisModuleString *name) {
    struct fence fence;
    fenceOpen(&fence, ctx, name, KEY_TO_WRITE);
    bool in_use = keynamesSideIsInUse(name, fence.key, KEY_TO_WRITE);
    int type = fenceTypeOf(&fence);
    int64_t last = fenceLastOf(&fence, readToken(&fence));
    fenceClose(&fence);
    if (in_use) {
        return RESULT_KEY_IN_USE;
    }
    if (type != REDISMODULE_KEYTYPE_HASH && type != REDISMODULE_KEYTYPE_EMPTY) {
        return RESULT_WRONG_TYPE;
    }
    return last < LARGEST ? RESULT_DONE : RESULT_NO_TOKEN;
}

bool fenceKeepsMemory(void) {
    return swapped.lives;
}
