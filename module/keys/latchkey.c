/* See latchkey.h. */
#include "keys/latchkey.h"

#include <stddef.h>

#include "common/propagate.h"

/* The length of INT64_MIN in decimal. */
#define LONGEST_NUMBER 20

/* Reads the number. Not by GET, which MONITOR and INFO commandstats would show. */
static enum latchkeyState stateOfString(struct latchkey *latch) {
    size_t length;
    if (RedisModule_ValueLength(latch->key) > LONGEST_NUMBER) {
        return LATCHKEY_NO_NUMBER; /* not copied, because it may be long */
    }
    const char *bytes = RedisModule_StringDMA(latch->key, &length, REDISMODULE_READ);
    RedisModuleString *text = RedisModule_CreateString(latch->ctx, bytes, length);
    long long number;
    int is_number = RedisModule_StringToLongLong(text, &number);
    RedisModule_FreeString(latch->ctx, text);
    if (is_number != REDISMODULE_OK) {
        return LATCHKEY_NO_NUMBER;
    }
    latch->count = number > 0 ? number : 0;
    return number > 0 ? LATCHKEY_SHUT : LATCHKEY_OPEN;
}

static enum latchkeyState stateOf(struct latchkey *latch) {
    switch (RedisModule_KeyType(latch->key)) {
    case REDISMODULE_KEYTYPE_EMPTY:
        return LATCHKEY_OPEN;
    case REDISMODULE_KEYTYPE_STRING:
        return stateOfString(latch);
    default:
        return LATCHKEY_WRONG_TYPE;
    }
}

/* Only the expiry of a key that exists may be read: Redis 8.6 crashes on any other. */
static int64_t latchkeyEndOf(RedisModuleKey *key) {
    bool exists = RedisModule_KeyType(key) != REDISMODULE_KEYTYPE_EMPTY;
    mstime_t end_ms = exists ? RedisModule_GetAbsExpire(key) : REDISMODULE_NO_EXPIRE;
    return end_ms == REDISMODULE_NO_EXPIRE ? LATCHKEY_NO_END : end_ms;
}

void latchkeyOpen(struct latchkey *latch, RedisModuleCtx *ctx, RedisModuleString *name,
                  enum keyAccess access) {
    *latch = (struct latchkey){.ctx = ctx, .name = name};
    latch->key = keynamesOpen(ctx, name, access);
    latch->state = keynamesIsInUse(latch->key, access) ? LATCHKEY_IN_USE : stateOf(latch);
    latch->end_ms = latchkeyEndOf(latch->key);
}

void latchkeyClose(struct latchkey *latch) {
    RedisModule_CloseKey(latch->key);
}

enum result latchkeyCheck(const struct latchkey *latch) {
    switch (latch->state) {
    case LATCHKEY_OPEN:
    case LATCHKEY_SHUT:
        return RESULT_DONE;
    case LATCHKEY_WRONG_TYPE:
        return RESULT_WRONG_TYPE;
    case LATCHKEY_IN_USE:
        return RESULT_KEY_IN_USE;
    case LATCHKEY_NO_NUMBER:
        break;
    }
    return RESULT_NO_LATCH;
}

static void removeKey(struct latchkey *latch) {
    if (RedisModule_KeyType(latch->key) != REDISMODULE_KEYTYPE_EMPTY) {
        RedisModule_DeleteKey(latch->key);
        propagateDeleted(latch->ctx, latch->name);
    }
}

/* RedisModule_StringSet removes the key's TTL, so it is set again. */
static void put(struct latchkey *latch, int64_t count, int64_t end_ms) {
    RedisModuleString *text = RedisModule_CreateStringFromLongLong(latch->ctx, count);
    RedisModule_StringSet(latch->key, text);
    RedisModule_FreeString(latch->ctx, text);
    if (end_ms != LATCHKEY_NO_END) {
        RedisModule_SetAbsExpire(latch->key, end_ms);
    }
    const struct propagateNumber number = {count, end_ms};
    propagateNumber(latch->ctx, latch->name, &number);
}

void latchkeySet(struct latchkey *latch, int64_t count, int64_t end_ms) {
    if (count == 0) {
        removeKey(latch);
    } else {
        put(latch, count, end_ms);
    }
}

int64_t latchkeyDown(struct latchkey *latch, int64_t by) {
    int64_t left = latch->count > by ? latch->count - by : 0;
    latchkeySet(latch, left, latch->end_ms);
    return left;
}
