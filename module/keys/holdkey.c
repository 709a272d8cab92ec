/* See holdkey.h. */
#include "keys/holdkey.h"

#include <string.h>

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

/* Strings that are written again and again, made once: making one costs a tenth of the write. */
static struct { RedisModuleString *one, *mode, *modes[MODE_COUNT]; } texts;

static RedisModuleString *textOf(const char *bytes) {
    return RedisModule_CreateString(NULL, bytes, strlen(bytes));
}

void holdkeyBegin(void) {
    texts.one = textOf("1");
    texts.mode = textOf("mode");
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        const char *text = holdkeyModeText((enum lockMode)mode);
        texts.modes[mode] = text ? textOf(text) : NULL;
    }
}

void holdkeyFree(void) {
    RedisModule_FreeString(NULL, texts.one);
    RedisModule_FreeString(NULL, texts.mode);
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        if (texts.modes[mode]) {
            RedisModule_FreeString(NULL, texts.modes[mode]);
        }
    }
}

RedisModuleString *holdkeyModeField(void) {
    return texts.mode;
}

RedisModuleString *holdkeyModeValue(enum lockMode mode) {
    return texts.modes[mode];
}

RedisModuleString *holdkeyCountText(RedisModuleCtx *ctx, int64_t count) {
    if (count != 1) {
        return RedisModule_CreateStringFromLongLong(ctx, count);
    }
    RedisModule_RetainString(NULL, texts.one);
    return texts.one;
}

void holdkeyPut(struct holds *holds, RedisModuleString *field, int64_t count) {
    RedisModuleString *value = holdkeyCountText(holds->ctx, count);
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
