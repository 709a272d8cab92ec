/* See delaykeys.h. */
#include "keys/delaykeys.h"

#include <string.h>

#include "server/effects.h"

#define DUE "delay:due:"
#define VALUE "delay:value:"

/* The lists `x` and `{x}` would have the same keys. The queue is that of `x`, unless this field of the hash
 * names another list. No id is empty. */
static const char list_field[] = "";

/* ---- names ---- */

static bool beginsWith(const char *bytes, size_t length, const char *prefix) {
    size_t prefix_length = strlen(prefix);
    return length > prefix_length && memcmp(bytes, prefix, prefix_length) == 0;
}

enum delaykeysKind delaykeysKindOf(RedisModuleString *name) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    if (length == 0 || bytes[0] != DUE[0]) {
        return DELAYKEYS_NEITHER; /* as nearly all */
    }
    if (beginsWith(bytes, length, DUE)) {
        return DELAYKEYS_DUE;
    }
    return beginsWith(bytes, length, VALUE) ? DELAYKEYS_VALUE : DELAYKEYS_NEITHER;
}

/* Whether the bytes are `{…}` and nothing else, so that keynamesSide leaves them as they are. */
static bool isTagOnly(const char *bytes, size_t length) {
    return length > 2 && bytes[0] == '{' &&
           memchr(bytes, '}', length) == (const void *)(bytes + length - 1);
}

RedisModuleString *delaykeysQueueOf(RedisModuleCtx *ctx, RedisModuleString *list) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(list, &length);
    if (isTagOnly(bytes, length)) {
        return RedisModule_CreateString(ctx, bytes + 1, length - 2);
    }
    RedisModule_RetainString(ctx, list);
    return list;
}

/* What stands behind the prefix is a list with a tag of its own, or one in braces. */
RedisModuleString *delaykeysQueueOfKey(RedisModuleCtx *ctx, RedisModuleString *name) {
    const char *prefix = delaykeysKindOf(name) == DELAYKEYS_DUE ? DUE : VALUE;
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    RedisModuleString *list =
        RedisModule_CreateString(ctx, bytes + strlen(prefix), length - strlen(prefix));
    RedisModuleString *queue = delaykeysQueueOf(ctx, list);
    RedisModuleString *again = keynamesSide(ctx, prefix, queue);
    bool is_ours = RedisModule_StringCompare(again, name) == 0;
    RedisModule_FreeString(ctx, again);
    RedisModule_FreeString(ctx, list);
    if (!is_ours) {
        RedisModule_FreeString(ctx, queue);
    }
    return is_ours ? queue : NULL;
}

/* ---- the handle ---- */

void delaykeysOpen(struct delaykeys *keys, RedisModuleCtx *ctx, RedisModuleString *list,
                   enum keyAccess access) {
    keys->ctx = ctx;
    keys->list = list;
    keys->due_name = keynamesSide(ctx, DUE, list);
    keys->value_name = keynamesSide(ctx, VALUE, list);
    keys->due = keynamesOpenSide(ctx, list, keys->due_name, access);
    keys->value = keynamesOpenSide(ctx, list, keys->value_name, access);
}

void delaykeysClose(struct delaykeys *keys) {
    RedisModule_CloseKey(keys->due);
    RedisModule_CloseKey(keys->value);
    RedisModule_FreeString(keys->ctx, keys->due_name);
    RedisModule_FreeString(keys->ctx, keys->value_name);
}

static bool is(RedisModuleKey *key, int type) {
    return key && RedisModule_KeyType(key) == type;
}

static bool isEmpty(RedisModuleKey *key) {
    return !key || RedisModule_KeyType(key) == REDISMODULE_KEYTYPE_EMPTY;
}

bool delaykeysIsWrongType(const struct delaykeys *keys) {
    return !(isEmpty(keys->due) || is(keys->due, REDISMODULE_KEYTYPE_ZSET)) ||
           !(isEmpty(keys->value) || is(keys->value, REDISMODULE_KEYTYPE_HASH));
}

/* ---- looking ---- */

size_t delaykeysLength(const struct delaykeys *keys) {
    return is(keys->due, REDISMODULE_KEYTYPE_ZSET) ? RedisModule_ValueLength(keys->due) : 0;
}

bool delaykeysHas(const struct delaykeys *keys, RedisModuleString *id) {
    double score;
    return is(keys->due, REDISMODULE_KEYTYPE_ZSET) &&
           RedisModule_ZsetScore(keys->due, id, &score) == REDISMODULE_OK;
}

/* A score that we did not write may be anything; what is no number counts as long ago. */
static int64_t msOf(double score) {
    if (!(score > 0)) {
        return 0;
    }
    return score < (double)DELAYKEYS_LATEST ? (int64_t)score : DELAYKEYS_LATEST;
}

int64_t delaykeysFirst(const struct delaykeys *keys, double after) {
    if (!is(keys->due, REDISMODULE_KEYTYPE_ZSET)) {
        return INT64_MAX;
    }
    double score = 0;
    RedisModule_ZsetFirstInScoreRange(keys->due, after, REDISMODULE_POSITIVE_INFINITE,
                                      after != REDISMODULE_NEGATIVE_INFINITE, 0);
    RedisModuleString *id = RedisModule_ZsetRangeCurrentElement(keys->due, &score);
    RedisModule_ZsetRangeStop(keys->due);
    if (!id) {
        return INT64_MAX;
    }
    RedisModule_FreeString(keys->ctx, id);
    return msOf(score);
}

static RedisModuleString *valueOf(const struct delaykeys *keys, RedisModuleString *id) {
    RedisModuleString *value = NULL;
    if (is(keys->value, REDISMODULE_KEYTYPE_HASH)) {
        RedisModule_HashGet(keys->value, REDISMODULE_HASH_NONE, id, &value, NULL);
    }
    return value;
}

static bool visitOne(struct delaykeys *keys, const struct delaykeysWalk *walk) {
    struct delaykeysElement element;
    element.id = RedisModule_ZsetRangeCurrentElement(keys->due, &element.score);
    element.due_ms = msOf(element.score);
    element.value = valueOf(keys, element.id);
    bool goes_on = walk->visit(&element, walk->context);
    if (element.value) {
        RedisModule_FreeString(keys->ctx, element.value);
    }
    RedisModule_FreeString(keys->ctx, element.id);
    return goes_on;
}

void delaykeysEach(struct delaykeys *keys, const struct delaykeysWalk *walk) {
    if (!is(keys->due, REDISMODULE_KEYTYPE_ZSET)) {
        return;
    }
    RedisModule_ZsetFirstInScoreRange(keys->due, walk->after, REDISMODULE_POSITIVE_INFINITE,
                                      walk->after != REDISMODULE_NEGATIVE_INFINITE, 0);
    while (!RedisModule_ZsetRangeEndReached(keys->due) && visitOne(keys, walk)) {
        RedisModule_ZsetRangeNext(keys->due);
    }
    RedisModule_ZsetRangeStop(keys->due);
}

/* ---- writing ---- */

/* The next larger number that a double has, of one that is not negative. */
static double nextAfter(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    bits++;
    memcpy(&number, &bits, sizeof(bits));
    return number;
}

/* The next larger score than that of the last element which is due at this ms, or the ms itself. */
static double scoreAt(struct delaykeys *keys, int64_t due_ms) {
    double score = (double)due_ms, last;
    RedisModule_ZsetLastInScoreRange(keys->due, score, score + 1, 0, 1);
    RedisModuleString *id = RedisModule_ZsetRangeCurrentElement(keys->due, &last);
    RedisModule_ZsetRangeStop(keys->due);
    if (!id) {
        return score;
    }
    RedisModule_FreeString(keys->ctx, id);
    double next = nextAfter(last);
    return next < score + 1 ? next : last;
}

static void nameList(struct delaykeys *keys) {
    RedisModuleString *field = RedisModule_CreateString(keys->ctx, list_field, 0);
    RedisModule_HashSet(keys->value, REDISMODULE_HASH_NONE, field, keys->list, NULL);
    effectsField(keys->ctx, keys->value_name, field, keys->list);
    RedisModule_FreeString(keys->ctx, field);
}

RedisModuleString *delaykeysList(const struct delaykeys *keys) {
    RedisModuleString *named = NULL;
    if (is(keys->value, REDISMODULE_KEYTYPE_HASH)) {
        RedisModule_HashGet(keys->value, REDISMODULE_HASH_CFIELDS, list_field, &named, NULL);
    }
    if (!named) {
        RedisModule_RetainString(keys->ctx, keys->list);
    }
    return named ? named : keys->list;
}

void delaykeysPut(struct delaykeys *keys, RedisModuleString *id, RedisModuleString *value,
                  int64_t due_ms) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(keys->list, &length);
    double score = is(keys->due, REDISMODULE_KEYTYPE_ZSET) ? scoreAt(keys, due_ms) : (double)due_ms;
    RedisModule_ZsetAdd(keys->due, score, id, NULL);
    effectsExactScore(keys->ctx, keys->due_name, id, score);
    if (isTagOnly(bytes, length)) {
        nameList(keys);
    }
    RedisModule_HashSet(keys->value, REDISMODULE_HASH_NONE, id, value, NULL);
    effectsField(keys->ctx, keys->value_name, id, value);
}

/* Nothing is pending any more: values without a time go, too. */
static void clear(struct delaykeys *keys) {
    if (is(keys->value, REDISMODULE_KEYTYPE_HASH)) {
        RedisModule_UnlinkKey(keys->value);
        effectsDeleted(keys->ctx, keys->value_name);
    }
}

bool delaykeysRemove(struct delaykeys *keys, RedisModuleString *id) {
    int removed = 0;
    if (is(keys->due, REDISMODULE_KEYTYPE_ZSET)) {
        RedisModule_ZsetRem(keys->due, id, &removed);
    }
    if (!removed) {
        return false;
    }
    effectsUnscored(keys->ctx, keys->due_name, id);
    if (delaykeysLength(keys) == 0) {
        clear(keys);
    } else if (is(keys->value, REDISMODULE_KEYTYPE_HASH)) {
        RedisModule_HashSet(keys->value, REDISMODULE_HASH_NONE, id, REDISMODULE_HASH_DELETE, NULL);
        effectsFieldGone(keys->ctx, keys->value_name, id);
    }
    return true;
}
