/* See keycheck.h. */
#ifndef CHECKED
#define CHECKED /* also if this file is checked alone: make tidy */
#endif
#include "server/keycheck.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "redismodule.h"

static bool keycheckIs(RedisModuleKey *key, int type) {
    return RedisModule_KeyType(key) == type;
}

static bool isThere(RedisModuleKey *key) {
    return !keycheckIs(key, REDISMODULE_KEYTYPE_EMPTY);
}

/* Whether the key may be written to as this type: there is a handle, and the key is of this type or
 * does not exist. */
static bool canBecome(RedisModuleKey *key, int type) {
    return key && (!isThere(key) || keycheckIs(key, type));
}

/* X(return type, name, parameters, arguments, what must be true) */
#define CHECKED_FUNCTIONS(X)                                                                     \
    X(mstime_t, GetAbsExpire, (RedisModuleKey * key), (key), isThere(key))                       \
    X(int, SetAbsExpire, (RedisModuleKey * key, mstime_t end_ms), (key, end_ms), isThere(key))   \
    X(int, DeleteKey, (RedisModuleKey * key), (key), isThere(key))                               \
    X(int, UnlinkKey, (RedisModuleKey * key), (key), isThere(key))                               \
    X(size_t, ValueLength, (RedisModuleKey * key), (key), isThere(key))                          \
    X(int, StringSet, (RedisModuleKey * key, RedisModuleString * value), (key, value), key)      \
    X(char *, StringDMA, (RedisModuleKey * key, size_t * length, int mode), (key, length, mode), \
      keycheckIs(key, REDISMODULE_KEYTYPE_STRING))                                               \
    X(int, ScanKey,                                                                              \
      (RedisModuleKey * key, RedisModuleScanCursor * cursor, RedisModuleScanKeyCB visit,         \
       void *data),                                                                              \
      (key, cursor, visit, data), isThere(key))                                                  \
    X(int, ZsetAdd, (RedisModuleKey * key, double score, RedisModuleString *member, int *flags), \
      (key, score, member, flags), canBecome(key, REDISMODULE_KEYTYPE_ZSET))                     \
    X(int, ZsetRem, (RedisModuleKey * key, RedisModuleString * member, int *removed),            \
      (key, member, removed), keycheckIs(key, REDISMODULE_KEYTYPE_ZSET))                         \
    X(int, ZsetScore, (RedisModuleKey * key, RedisModuleString * member, double *score),         \
      (key, member, score), keycheckIs(key, REDISMODULE_KEYTYPE_ZSET))                           \
    X(int, ZsetFirstInScoreRange,                                                                \
      (RedisModuleKey * key, double min, double max, int without_min, int without_max),          \
      (key, min, max, without_min, without_max), keycheckIs(key, REDISMODULE_KEYTYPE_ZSET))      \
    X(int, ZsetLastInScoreRange,                                                                 \
      (RedisModuleKey * key, double min, double max, int without_min, int without_max),          \
      (key, min, max, without_min, without_max), keycheckIs(key, REDISMODULE_KEYTYPE_ZSET))      \
    X(RedisModuleString *, ZsetRangeCurrentElement, (RedisModuleKey * key, double *score),       \
      (key, score), keycheckIs(key, REDISMODULE_KEYTYPE_ZSET))                                   \
    X(int, ZsetRangeNext, (RedisModuleKey * key), (key),                                         \
      keycheckIs(key, REDISMODULE_KEYTYPE_ZSET))                                                 \
    X(int, ZsetRangePrev, (RedisModuleKey * key), (key),                                         \
      keycheckIs(key, REDISMODULE_KEYTYPE_ZSET))                                                 \
    X(int, ZsetRangeEndReached, (RedisModuleKey * key), (key),                                   \
      keycheckIs(key, REDISMODULE_KEYTYPE_ZSET))

/* NOLINTBEGIN(bugprone-macro-parentheses): the arguments come with theirs. */
#define DEFINE(type, name, parameters, arguments, rule) \
    static type(*server##name) parameters;              \
    static type checked##name parameters {              \
        RedisModule_Assert(rule);                       \
        return server##name arguments;                  \
    }
CHECKED_FUNCTIONS(DEFINE)
#undef DEFINE
/* NOLINTEND(bugprone-macro-parentheses) */

/* ---- functions with a variable number of arguments ---- */

/* The fields of one call, and their values, or where those are to be stored. The module passes two
 * at most. */
struct fields {
    void *names[2], *values[2]; /* a name is NULL after the last */
};

static struct fields fieldsOf(va_list arguments) {
    struct fields fields = {{NULL}, {NULL}};
    void *name;
    for (int i = 0; (name = va_arg(arguments, void *)); i++) {
        RedisModule_Assert(i < 2);
        fields.names[i] = name;
        fields.values[i] = va_arg(arguments, void *);
    }
    return fields;
}

static int (*serverHashGet)(RedisModuleKey *key, int flags, ...);
static int (*serverHashSet)(RedisModuleKey *key, int flags, ...);

static int checkedHashGet(RedisModuleKey *key, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const struct fields fields = fieldsOf(arguments);
    va_end(arguments);
    RedisModule_Assert(keycheckIs(key, REDISMODULE_KEYTYPE_HASH));
    return serverHashGet(key, flags, fields.names[0], fields.values[0], fields.names[1],
                         fields.values[1], NULL);
}

/* A field can be deleted from a hash only. */
static int checkedHashSet(RedisModuleKey *key, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const struct fields fields = fieldsOf(arguments);
    va_end(arguments);
    bool removes = fields.values[0] == REDISMODULE_HASH_DELETE;
    RedisModule_Assert(removes ? keycheckIs(key, REDISMODULE_KEYTYPE_HASH)
                               : canBecome(key, REDISMODULE_KEYTYPE_HASH));
    return serverHashSet(key, flags, fields.names[0], fields.values[0], fields.names[1],
                         fields.values[1], NULL);
}

/* ---- installing the checks ---- */

void keycheckBegin(void) {
#define INSTALL(type, name, parameters, arguments, rule) \
    server##name = RedisModule_##name;                   \
    RedisModule_##name = checked##name;
    CHECKED_FUNCTIONS(INSTALL)
#undef INSTALL
    serverHashGet = RedisModule_HashGet;
    RedisModule_HashGet = checkedHashGet;
    serverHashSet = RedisModule_HashSet;
    RedisModule_HashSet = checkedHashSet;
}
