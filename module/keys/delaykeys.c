/* See delaykeys.h. */
#include "keys/delaykeys.h"

#include <string.h>

#include "common/propagate.h"
#include "core/mem.h"

#define DUE "delay:due:"
#define VALUE "delay:value:"

/* The lists `x` and `{x}` have the same keys. The queue is that of `x`, unless this field of the
 * hash names another list. No id is empty. */
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
        return DELAYKEYS_NEITHER; /* the usual case */
    }
    if (beginsWith(bytes, length, DUE)) {
        return DELAYKEYS_DUE;
    }
    return beginsWith(bytes, length, VALUE) ? DELAYKEYS_VALUE : DELAYKEYS_NEITHER;
}

RedisModuleString *delaykeysQueueOf(RedisModuleCtx *ctx, RedisModuleString *list) {
    return keynamesSide(ctx, "", list);
}

/* Whether this is the queue of this list. */
static bool belongs(RedisModuleCtx *ctx, RedisModuleString *list, RedisModuleString *queue) {
    RedisModuleString *its = delaykeysQueueOf(ctx, list);
    bool same = RedisModule_StringCompare(its, queue) == 0;
    RedisModule_FreeString(ctx, its);
    return same;
}

/* The name without its outer braces; NULL if it has none. */
static RedisModuleString *withoutBraces(RedisModuleCtx *ctx, RedisModuleString *queue) {
    size_t length = 0;
    const char *bytes = RedisModule_StringPtrLen(queue, &length);
    bool has_them = length >= 2 && bytes[0] == '{' && bytes[length - 1] == '}';
    return has_them ? RedisModule_CreateString(ctx, bytes + 1, length - 2) : NULL;
}

/* The list of the queue if its keys do not name another one: of the lists with these keys the one
 * without the outer braces. NULL if no list has such keys. */
static RedisModuleString *listOf(RedisModuleCtx *ctx, RedisModuleString *queue) {
    RedisModuleString *within = withoutBraces(ctx, queue);
    if (within && belongs(ctx, within, queue)) {
        return within;
    }
    if (within) {
        RedisModule_FreeString(ctx, within);
    }
    if (!belongs(ctx, queue, queue)) {
        return NULL;
    }
    RedisModule_RetainString(ctx, queue);
    return queue;
}

RedisModuleString *delaykeysQueueOfKey(RedisModuleCtx *ctx, RedisModuleString *name) {
    const char *prefix = delaykeysKindOf(name) == DELAYKEYS_DUE ? DUE : VALUE;
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    RedisModuleString *queue =
        RedisModule_CreateString(ctx, bytes + strlen(prefix), length - strlen(prefix));
    RedisModuleString *list = listOf(ctx, queue);
    RedisModule_FreeString(ctx, list ? list : queue);
    return list ? queue : NULL;
}

/* ---- the handle ---- */

static RedisModuleString *keyName(const struct delaykeys *keys, const char *prefix) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(keys->queue, &length);
    RedisModuleString *name = RedisModule_CreateString(keys->ctx, prefix, strlen(prefix));
    RedisModule_StringAppendBuffer(keys->ctx, name, bytes, length);
    return name;
}

static void delaykeysOpenKeys(struct delaykeys *keys, enum keyAccess access) {
    keys->due_name = keyName(keys, DUE);
    keys->value_name = keyName(keys, VALUE);
    keys->due = keynamesOpenSide(keys->ctx, keys->queue, keys->due_name, access);
    keys->value = keynamesOpenSide(keys->ctx, keys->queue, keys->value_name, access);
}

void delaykeysOpen(struct delaykeys *keys, RedisModuleCtx *ctx, RedisModuleString *list,
                   enum keyAccess access) {
    keys->ctx = ctx;
    keys->list = list;
    keys->queue = delaykeysQueueOf(ctx, list);
    delaykeysOpenKeys(keys, access);
}

void delaykeysOpenQueue(struct delaykeys *keys, RedisModuleCtx *ctx, RedisModuleString *queue) {
    keys->ctx = ctx;
    keys->list = NULL;
    keys->queue = queue;
    RedisModule_RetainString(ctx, queue);
    delaykeysOpenKeys(keys, KEY_TO_READ);
}

void delaykeysClose(struct delaykeys *keys) {
    RedisModule_CloseKey(keys->due);
    RedisModule_CloseKey(keys->value);
    RedisModule_FreeString(keys->ctx, keys->due_name);
    RedisModule_FreeString(keys->ctx, keys->value_name);
    RedisModule_FreeString(keys->ctx, keys->queue);
}

static bool delaykeysIs(RedisModuleKey *key, int type) {
    return key && RedisModule_KeyType(key) == type;
}

static bool isEmpty(RedisModuleKey *key) {
    return !key || RedisModule_KeyType(key) == REDISMODULE_KEYTYPE_EMPTY;
}

bool delaykeysIsWrongType(const struct delaykeys *keys) {
    return !(isEmpty(keys->due) || delaykeysIs(keys->due, REDISMODULE_KEYTYPE_ZSET)) ||
           !(isEmpty(keys->value) || delaykeysIs(keys->value, REDISMODULE_KEYTYPE_HASH));
}

bool delaykeysAreInUse(const struct delaykeys *keys) {
    return keynamesSideIsInUse(keys->queue, keys->due, KEY_TO_WRITE) ||
           keynamesSideIsInUse(keys->queue, keys->value, KEY_TO_WRITE);
}

/* ---- reading ---- */

size_t delaykeysLength(const struct delaykeys *keys) {
    return delaykeysIs(keys->due, REDISMODULE_KEYTYPE_ZSET) ? RedisModule_ValueLength(keys->due)
                                                            : 0;
}

bool delaykeysHas(const struct delaykeys *keys, RedisModuleString *id) {
    double score;
    return delaykeysIs(keys->due, REDISMODULE_KEYTYPE_ZSET) &&
           RedisModule_ZsetScore(keys->due, id, &score) == REDISMODULE_OK;
}

/* Another client may have written any score; one that is no positive number counts as long past. */
static int64_t msOf(double score) {
    if (!(score > 0)) {
        return 0;
    }
    return score < (double)DELAYKEYS_LATEST ? (int64_t)score : DELAYKEYS_LATEST;
}

int64_t delaykeysNext(const struct delaykeys *keys, int64_t after_ms) {
    if (!delaykeysIs(keys->due, REDISMODULE_KEYTYPE_ZSET)) {
        return INT64_MAX;
    }
    double score = 0;
    RedisModule_ZsetFirstInScoreRange(keys->due, (double)(after_ms + 1),
                                      REDISMODULE_POSITIVE_INFINITE, 0, 0);
    RedisModuleString *id = RedisModule_ZsetRangeCurrentElement(keys->due, &score);
    RedisModule_ZsetRangeStop(keys->due);
    if (!id) {
        return INT64_MAX;
    }
    RedisModule_FreeString(keys->ctx, id);
    return msOf(score);
}

bool delaykeysIsId(RedisModuleString *id) {
    size_t length;
    RedisModule_StringPtrLen(id, &length);
    return length > 0;
}

RedisModuleString *delaykeysValue(const struct delaykeys *keys, RedisModuleString *id) {
    RedisModuleString *value = NULL;
    if (delaykeysIsId(id) && delaykeysIs(keys->value, REDISMODULE_KEYTYPE_HASH)) {
        RedisModule_HashGet(keys->value, REDISMODULE_HASH_NONE, id, &value, NULL);
    }
    return value;
}

void delaykeysEach(struct delaykeys *keys,
                   bool (*visit)(const struct delaykeysElement *element, void *context),
                   void *context) {
    if (!delaykeysIs(keys->due, REDISMODULE_KEYTYPE_ZSET)) {
        return;
    }
    RedisModule_ZsetFirstInScoreRange(keys->due, REDISMODULE_NEGATIVE_INFINITE,
                                      REDISMODULE_POSITIVE_INFINITE, 0, 0);
    bool continues = true;
    while (continues && !RedisModule_ZsetRangeEndReached(keys->due)) {
        double score;
        struct delaykeysElement element;
        element.id = RedisModule_ZsetRangeCurrentElement(keys->due, &score);
        element.due_ms = msOf(score);
        element.value = delaykeysValue(keys, element.id);
        continues = visit(&element, context);
        if (element.value) {
            RedisModule_FreeString(keys->ctx, element.value);
        }
        RedisModule_FreeString(keys->ctx, element.id);
        RedisModule_ZsetRangeNext(keys->due);
    }
    RedisModule_ZsetRangeStop(keys->due);
}

/* ---- writing ---- */

/* The next larger double after a number that is not negative. */
static double nextAfter(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    bits++;
    memcpy(&number, &bits, sizeof(bits));
    return number;
}

/* The score of a new element that is due at this ms: the next larger one after the last element
 * that is due then, or the ms itself. */
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
    propagateField(keys->ctx, keys->value_name, field, keys->list);
    RedisModule_FreeString(keys->ctx, field);
}

/* The list that the hash names, as a new reference; NULL if it names none, or one that does not
 * have these keys. */
static RedisModuleString *namedList(const struct delaykeys *keys) {
    RedisModuleString *named = NULL;
    if (delaykeysIs(keys->value, REDISMODULE_KEYTYPE_HASH)) {
        RedisModule_HashGet(keys->value, REDISMODULE_HASH_CFIELDS, list_field, &named, NULL);
    }
    if (named && !belongs(keys->ctx, named, keys->queue)) {
        RedisModule_FreeString(keys->ctx, named);
        return NULL;
    }
    return named;
}

RedisModuleString *delaykeysList(const struct delaykeys *keys) {
    RedisModuleString *named = namedList(keys);
    return named ? named : listOf(keys->ctx, keys->queue);
}

/* Whether the keys belong to this list if the hash names none. This is called for each push, so the
 * usual case comes first: a list without a hash tag, whose keys have braces around its name. */
static bool isListOfNames(const struct delaykeys *keys) {
    if (RedisModule_StringCompare(keys->queue, keys->list) != 0) {
        return true;
    }
    RedisModuleString *list = listOf(keys->ctx, keys->queue);
    bool same = RedisModule_StringCompare(list, keys->list) == 0;
    RedisModule_FreeString(keys->ctx, list);
    return same;
}

/* Whether the elements under these names are, or would be, for this list. */
static bool isListOfKeys(const struct delaykeys *keys) {
    RedisModuleString *named = namedList(keys);
    if (!named) {
        return isListOfNames(keys);
    }
    bool same = RedisModule_StringCompare(named, keys->list) == 0;
    RedisModule_FreeString(keys->ctx, named);
    return same;
}

bool delaykeysAreOfAnother(const struct delaykeys *keys) {
    return delaykeysLength(keys) > 0 && !isListOfKeys(keys);
}

bool delaykeysPut(struct delaykeys *keys, RedisModuleString *id, RedisModuleString *value,
                  int64_t due_ms) {
    int added = 0;
    double score =
        delaykeysIs(keys->due, REDISMODULE_KEYTYPE_ZSET) ? scoreAt(keys, due_ms) : (double)due_ms;
    if (delaykeysLength(keys) == 0 && !isListOfKeys(keys)) {
        nameList(keys);
    }
    RedisModule_ZsetAdd(keys->due, score, id, &added);
    propagateExactScore(keys->ctx, keys->due_name, id, score);
    RedisModule_HashSet(keys->value, REDISMODULE_HASH_NONE, id, value, NULL);
    propagateField(keys->ctx, keys->value_name, id, value);
    return added & REDISMODULE_ZADD_ADDED;
}

/* To be called when nothing is pending any more: also removes values that have no due time. */
static void delaykeysClear(struct delaykeys *keys) {
    if (delaykeysIs(keys->value, REDISMODULE_KEYTYPE_HASH)) {
        RedisModule_UnlinkKey(keys->value);
        propagateDeleted(keys->ctx, keys->value_name);
    }
}

/* The elements whose due time was removed. */
struct removed {
    RedisModuleString **ids;
    size_t count;
};

static void removeTimes(struct delaykeys *keys, RedisModuleString *const *ids, size_t count,
                        struct removed *removed) {
    for (size_t i = 0; i < count && delaykeysIs(keys->due, REDISMODULE_KEYTYPE_ZSET); i++) {
        int is_removed = 0;
        RedisModule_ZsetRem(keys->due, ids[i], &is_removed);
        if (is_removed) {
            removed->ids[removed->count++] = ids[i];
        }
    }
}

/* Leaves out the empty id, which another client has written: it has no value, as its field names
 * the list. */
static void leaveOutEmpty(struct removed *removed) {
    size_t kept = 0;
    for (size_t i = 0; i < removed->count; i++) {
        if (delaykeysIsId(removed->ids[i])) {
            removed->ids[kept++] = removed->ids[i];
        }
    }
    removed->count = kept;
}

static void removeValues(struct delaykeys *keys, struct removed *removed) {
    leaveOutEmpty(removed);
    for (size_t i = 0; i < removed->count && delaykeysIs(keys->value, REDISMODULE_KEYTYPE_HASH);
         i++) {
        RedisModule_HashSet(keys->value, REDISMODULE_HASH_NONE, removed->ids[i],
                            REDISMODULE_HASH_DELETE, NULL);
    }
    if (removed->count > 0) {
        propagateFieldsGone(keys->ctx, keys->value_name, removed->ids, removed->count);
    }
}

/* Propagates one change for all of them: one change for each would cost more than removing it. */
static size_t removeTogether(struct delaykeys *keys, RedisModuleString *const *ids, size_t count,
                             struct removed *removed) {
    removeTimes(keys, ids, count, removed);
    size_t removed_count = removed->count;
    if (removed_count == 0) {
        return 0;
    }
    propagateUnscoredMany(keys->ctx, keys->due_name, removed->ids, removed->count);
    if (delaykeysLength(keys) == 0) {
        delaykeysClear(keys);
    } else if (delaykeysIs(keys->value, REDISMODULE_KEYTYPE_HASH)) {
        removeValues(keys, removed);
    }
    return removed_count;
}

size_t delaykeysRemove(struct delaykeys *keys, RedisModuleString *const *ids, size_t count) {
    struct removed removed = {memAlloc(count * sizeof(*ids)), 0};
    size_t removed_count = removeTogether(keys, ids, count, &removed);
    memFree(removed.ids);
    return removed_count;
}
