/* See holdkey.h. */
#include "keys/holdkey.h"

#include "common/propagate.h"
#include "keys/tally.h"

int64_t holdkeyCount(struct holds *holds, RedisModuleString *field) {
    RedisModuleString *value = NULL;
    RedisModule_HashGet(holds->key, REDISMODULE_HASH_NONE, field, &value, NULL);
    if (!value) {
        return 0;
    }
    int64_t count;
    if (!holdkeyParseCount(value, &count)) {
        count = -1;
    }
    RedisModule_FreeString(holds->ctx, value);
    return count;
}

size_t holdkeyFieldCount(const struct holds *holds) {
    return RedisModule_ValueLength(holds->key);
}

void holdkeySetEnd(struct holds *holds, int64_t end_ms) {
    RedisModule_SetAbsExpire(holds->key, end_ms == LEASES_NO_END ? REDISMODULE_NO_EXPIRE : end_ms);
    propagateLease(holds->ctx, holds->name, end_ms);
}

const char *holdkeyModeText(enum lockMode mode) {
    static const char *const texts[MODE_COUNT] = {
        [MODE_READ] = "read", [MODE_WRITE] = "write", [MODE_SEMAPHORE] = "semaphore"};
    return texts[mode];
}

/* The text of most counts, made once: making it costs a tenth of the write. */
static RedisModuleString *text_of_one;

static RedisModuleString *textOfOne(void) {
    if (!text_of_one) {
        text_of_one = RedisModule_CreateStringFromLongLong(NULL, 1);
    }
    return text_of_one;
}

void holdkeyFree(void) {
    if (text_of_one) {
        RedisModule_FreeString(NULL, text_of_one);
        text_of_one = NULL;
    }
}

void holdkeyPut(struct holds *holds, RedisModuleString *field, int64_t count) {
    if (count == 1) {
        RedisModule_HashSet(holds->key, REDISMODULE_HASH_NONE, field, textOfOne(), NULL);
        return;
    }
    RedisModuleString *value = RedisModule_CreateStringFromLongLong(holds->ctx, count);
    RedisModule_HashSet(holds->key, REDISMODULE_HASH_NONE, field, value, NULL);
    RedisModule_FreeString(holds->ctx, value);
}

void holdkeyDelete(struct holds *holds) {
    if (holdkeyIsLeased(holds)) {
        tallyForget(RedisModule_GetSelectedDb(holds->ctx), holds->name);
    }
    if (holds->kind == HOLDS_PLAIN) {
        RedisModule_DeleteKey(holds->key);
    } else {
        RedisModule_UnlinkKey(holds->key); /* may be large: freed in the background */
    }
    holds->kind = HOLDS_FREE;
    holds->has_dead = false;
    propagateDeleted(holds->ctx, holds->name);
}
