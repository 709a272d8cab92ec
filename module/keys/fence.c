/* See fence.h. */
#include "keys/fence.h"

#include <stddef.h>

#include "core/mem.h"
#include "keys/keynames.h"
#include "server/config.h"
#include "server/effects.h"
#include "server/server.h"

/* A token is about the time in µs. What is far beyond, somebody else has written. */
#define LARGEST_BELIEVED (INT64_MAX / 2)

/* Every token that this process has given is at most this; it only grows. */
static int64_t largest;

/* What `largest` was when this life of the data began: a token given since is larger. */
static int64_t life_began;

/* Likewise for single databases that have begun a life later, by number; 0 for those that have
 * not. */
static struct {
    int64_t *began;
    int count;
} swapped;

struct fence {
    RedisModuleCtx *ctx;
    RedisModuleString *name;
    RedisModuleKey *key;
};

static void fenceOpen(struct fence *fence, RedisModuleCtx *ctx, RedisModuleString *lock_name,
                      enum keyAccess access) {
    fence->ctx = ctx;
    fence->name = keynamesSide(ctx, "lock:token:", lock_name);
    fence->key = keynamesOpenSide(ctx, lock_name, fence->name, access);
}

static void fenceClose(struct fence *fence) {
    RedisModule_CloseKey(fence->key);
    RedisModule_FreeString(fence->ctx, fence->name);
}

static int typeOf(const struct fence *fence) {
    return fence->key ? RedisModule_KeyType(fence->key) : REDISMODULE_KEYTYPE_EMPTY;
}

static int64_t readToken(struct fence *fence) {
    RedisModuleString *value = NULL;
    long long token = 0;
    if (typeOf(fence) == REDISMODULE_KEYTYPE_HASH) {
        RedisModule_HashGet(fence->key, REDISMODULE_HASH_CFIELDS, "token", &value, NULL);
    }
    if (value) {
        if (RedisModule_StringToLongLong(value, &token) != REDISMODULE_OK || token < 0 ||
            token > LARGEST_BELIEVED) {
            token = 0; /* no token of ours */
        }
        RedisModule_FreeString(fence->ctx, value);
    }
    return token;
}

static bool lastIsOf(struct fence *fence, RedisModuleString *owner) {
    RedisModuleString *value = NULL;
    if (typeOf(fence) == REDISMODULE_KEYTYPE_HASH) {
        RedisModule_HashGet(fence->key, REDISMODULE_HASH_CFIELDS, "owner", &value, NULL);
    }
    bool same = value && RedisModule_StringCompare(value, owner) == 0;
    if (value) {
        RedisModule_FreeString(fence->ctx, value);
    }
    return same;
}

static int64_t beganIn(int db) {
    bool later = db < swapped.count && swapped.began[db] > 0;
    return later ? swapped.began[db] : life_began;
}

/* Whether this process can have given the token in this life of the database. If it has not, the
 * record may be older than a token that was given since and is lost, and is not to be given again.
 */
static bool isOfThisLife(const struct fence *fence, int64_t token) {
    return token > beganIn(RedisModule_GetSelectedDb(fence->ctx)) && token <= largest;
}

/* No token of an earlier life is beyond what this returns, as long as the clocks agree. */
static int64_t newLife(void) {
    int64_t now = serverMicroseconds();
    largest = now > largest ? now : largest;
    return largest;
}

void fenceRestarted(void) {
    life_began = newLife();
    memFree(swapped.began);
    swapped.began = NULL;
    swapped.count = 0;
}

static void makeRoomFor(int db) {
    if (db < swapped.count) {
        return;
    }
    int64_t *grown = memAlloc(((size_t)db + 1) * sizeof(*grown));
    for (int i = 0; i < swapped.count; i++) {
        grown[i] = swapped.began[i];
    }
    memFree(swapped.began);
    swapped.began = grown;
    swapped.count = db + 1;
}

void fenceSwapped(int first_db, int second_db) {
    makeRoomFor(first_db > second_db ? first_db : second_db);
    swapped.began[first_db] = swapped.began[second_db] = newLife();
}

/* In µs, not ms: a replica that is promoted within the millisecond of tokens that it has missed is
 * to give larger ones. */
static int64_t newToken(int64_t last) {
    int64_t token = serverMicroseconds();
    token = token > last ? token : last + 1;
    largest = token > largest ? token : largest + 1;
    return largest;
}

static void writeDown(struct fence *fence, int64_t token, RedisModuleString *owner,
                      int64_t now_ms) {
    if (typeOf(fence) != REDISMODULE_KEYTYPE_HASH && typeOf(fence) != REDISMODULE_KEYTYPE_EMPTY) {
        return;
    }
    int64_t expire_ms = now_ms + configTokenRetentionMs();
    RedisModuleString *value = RedisModule_CreateStringFromLongLong(fence->ctx, token);
    RedisModule_HashSet(fence->key, REDISMODULE_HASH_CFIELDS, "token", value, "owner", owner, NULL);
    RedisModule_SetAbsExpire(fence->key, expire_ms);
    const struct effectsToken record = {token, owner, expire_ms};
    effectsToken(fence->ctx, fence->name, &record);
    RedisModule_FreeString(fence->ctx, value);
}

int64_t fenceIssue(const struct holds *holds, RedisModuleString *owner, bool is_reentry) {
    struct fence fence;
    fenceOpen(&fence, holds->ctx, holds->name, KEY_TO_WRITE);
    int64_t last = readToken(&fence);
    bool keeps = is_reentry && isOfThisLife(&fence, last) && lastIsOf(&fence, owner);
    int64_t token = keeps ? last : newToken(last);
    writeDown(&fence, token, owner, holds->now_ms);
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
    int type = typeOf(&fence);
    fenceClose(&fence);
    if (in_use) {
        return RESULT_KEY_IN_USE;
    }
    bool usable = type == REDISMODULE_KEYTYPE_HASH || type == REDISMODULE_KEYTYPE_EMPTY;
    return usable ? RESULT_DONE : RESULT_WRONG_TYPE;
}

bool fenceKeepsMemory(void) {
    return swapped.began;
}
