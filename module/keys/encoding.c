/* See encoding.h. */
#include "keys/encoding.h"

#include <stddef.h>

static RedisModuleString *longerThanOwners(RedisModuleCtx *ctx) {
    static const char bytes[512 + 1];
    return RedisModule_CreateString(ctx, bytes, sizeof(bytes));
}

void encodingGrowSet(RedisModuleCtx *ctx, RedisModuleKey *key) {
    if (!key || RedisModule_KeyType(key) != REDISMODULE_KEYTYPE_ZSET) {
        return;
    }
    RedisModuleString *member = longerThanOwners(ctx);
    int added = REDISMODULE_ZADD_NX;
    RedisModule_ZsetAdd(key, 0, member, &added);
    if (added & REDISMODULE_ZADD_ADDED) {
        RedisModule_ZsetRem(key, member, NULL);
    }
    RedisModule_FreeString(ctx, member);
}

void encodingGrowHash(RedisModuleCtx *ctx, RedisModuleKey *key) {
    if (!key || RedisModule_KeyType(key) != REDISMODULE_KEYTYPE_HASH) {
        return;
    }
    RedisModuleString *field = longerThanOwners(ctx);
    if (RedisModule_HashSet(key, REDISMODULE_HASH_NX | REDISMODULE_HASH_COUNT_ALL, field, field,
                            NULL) > 0) {
        RedisModule_HashSet(key, REDISMODULE_HASH_NONE, field, REDISMODULE_HASH_DELETE, NULL);
    }
    RedisModule_FreeString(ctx, field);
}
