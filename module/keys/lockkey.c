/* See lockkey.h. */
#include "keys/lockkey.h"

#include <stddef.h>
#include <string.h>

#include "server/effects.h"

static bool spells(RedisModuleString *value, const char *word) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(value, &length);
    return length == strlen(word) && memcmp(bytes, word, length) == 0;
}

const char *lockkeyModeText(enum lockMode mode) {
    return mode == MODE_READ ? "read" : "write";
}

/* What the field `mode` says; MODE_COUNT for nothing that we wrote. */
static enum lockMode readMode(struct holds *holds) {
    RedisModuleString *value = NULL;
    RedisModule_HashGet(holds->key, REDISMODULE_HASH_CFIELDS, "mode", &value, NULL);
    if (!value) {
        return MODE_COUNT;
    }
    enum lockMode mode = MODE_COUNT;
    if (spells(value, lockkeyModeText(MODE_READ))) {
        mode = MODE_READ;
    } else if (spells(value, lockkeyModeText(MODE_WRITE))) {
        mode = MODE_WRITE;
    }
    RedisModule_FreeString(holds->ctx, value);
    return mode;
}

/* A read-write lock says so in its field `mode`, a plain one has one field, its owner's. */
static enum holdsShape shapeOfHash(struct holds *holds) {
    if (RedisModule_ValueLength(holds->key) == 1) {
        return HOLDS_PLAIN; /* or what is left of a read-write lock: lockkeyHasModeOnly */
    }
    holds->mode = readMode(holds);
    return holds->mode == MODE_COUNT ? HOLDS_FOREIGN : HOLDS_READ_WRITE;
}

bool lockkeyHasModeOnly(struct holds *holds) {
    return holds->shape == HOLDS_PLAIN && readMode(holds) != MODE_COUNT;
}

static enum holdsShape shapeOf(struct holds *holds) {
    switch (RedisModule_KeyType(holds->key)) {
    case REDISMODULE_KEYTYPE_EMPTY:
        return HOLDS_FREE;
    case REDISMODULE_KEYTYPE_HASH:
        return shapeOfHash(holds);
    default:
        return HOLDS_WRONG_TYPE;
    }
}

void lockkeyOpen(struct holds *holds, RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms,
                 enum keyAccess access) {
    *holds = (struct holds){.ctx = ctx, .name = name, .now_ms = now_ms, .access = access};
    holds->key = keynamesOpen(ctx, name, access);
    holds->shape = holds->key ? shapeOf(holds) : HOLDS_FREE;
}

int64_t lockkeyEnd(const struct holds *holds) {
    mstime_t end =
        holds->shape == HOLDS_FREE ? REDISMODULE_NO_EXPIRE : RedisModule_GetAbsExpire(holds->key);
    return end == REDISMODULE_NO_EXPIRE ? LEASES_NO_END : end;
}

int64_t lockkeyEndAfter(const struct holds *holds, int64_t lease_ms) {
    const int64_t last_ms = LEASES_NO_END - 1;
    return lease_ms < last_ms - holds->now_ms ? holds->now_ms + lease_ms : last_ms;
}

void lockkeySetEnd(struct holds *holds, int64_t end_ms) {
    RedisModule_SetAbsExpire(holds->key, end_ms == LEASES_NO_END ? REDISMODULE_NO_EXPIRE : end_ms);
    effectsLease(holds->ctx, holds->name, end_ms);
}

bool lockkeyParseCount(RedisModuleString *value, int64_t *count) {
    long long number;
    if (RedisModule_StringToLongLong(value, &number) != REDISMODULE_OK || number < 1 ||
        number > RULES_MAX_HOLDS) {
        return false;
    }
    *count = number;
    return true;
}

int64_t lockkeyCount(struct holds *holds, RedisModuleString *field) {
    RedisModuleString *value = NULL;
    RedisModule_HashGet(holds->key, REDISMODULE_HASH_NONE, field, &value, NULL);
    if (!value) {
        return 0;
    }
    int64_t count;
    if (!lockkeyParseCount(value, &count)) {
        count = -1;
    }
    RedisModule_FreeString(holds->ctx, value);
    return count;
}

size_t lockkeyFieldCount(const struct holds *holds) {
    return RedisModule_ValueLength(holds->key);
}

void lockkeyPut(struct holds *holds, RedisModuleString *field, int64_t count) {
    RedisModuleString *value = RedisModule_CreateStringFromLongLong(holds->ctx, count);
    RedisModule_HashSet(holds->key, REDISMODULE_HASH_NONE, field, value, NULL);
    RedisModule_FreeString(holds->ctx, value);
}

void lockkeyDelete(struct holds *holds) {
    if (holds->shape == HOLDS_PLAIN) {
        RedisModule_DeleteKey(holds->key);
    } else {
        RedisModule_UnlinkKey(holds->key); /* of thousands of readers: freed in the background */
    }
    holds->shape = HOLDS_FREE;
    holds->has_dead = false;
    effectsDeleted(holds->ctx, holds->name);
}
