/* See fieldttl.h. */
#include "server/fieldttl.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/mem.h"

/* Whether this server lacks HPEXPIRETIME; known after the first call. */
static bool no_ttls;

/* The fields that one step of a scan has found. */
struct fields {
    RedisModuleString **names;
    size_t count, room;
};

static void fieldttlGrow(struct fields *fields) {
    size_t room = fields->room > 0 ? 2 * fields->room : 16;
    RedisModuleString **names = memAlloc(room * sizeof(RedisModuleString *));
    for (size_t i = 0; i < fields->count; i++) {
        names[i] = fields->names[i];
    }
    memFree(fields->names);
    fields->names = names;
    fields->room = room;
}

static void fieldttlAddField(RedisModuleKey *key, RedisModuleString *field,
                             RedisModuleString *value, void *data) {
    (void)key, (void)value;
    struct fields *fields = data;
    if (fields->count == fields->room) {
        fieldttlGrow(fields);
    }
    RedisModule_RetainString(NULL, field);
    fields->names[fields->count++] = field;
}

static void fieldttlForget(struct fields *fields) {
    for (size_t i = 0; i < fields->count; i++) {
        RedisModule_FreeString(NULL, fields->names[i]);
    }
    fields->count = 0;
}

static int64_t firstOf(RedisModuleCallReply *reply) {
    int64_t first_ms = INT64_MAX;
    size_t count = RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_ARRAY
                       ? RedisModule_CallReplyLength(reply)
                       : 0;
    for (size_t i = 0; i < count; i++) {
        int64_t end_ms = RedisModule_CallReplyInteger(RedisModule_CallReplyArrayElement(reply, i));
        first_ms = end_ms >= 0 && end_ms < first_ms ? end_ms : first_ms;
    }
    return first_ms;
}

/* The key stays open during the call. It cannot expire here: on servers that have the command the
 * time does not advance within a command or a callback. */
static int64_t fieldttlAsk(RedisModuleCtx *ctx, RedisModuleString *name,
                           const struct fields *fields) {
    RedisModuleCallReply *reply =
        RedisModule_Call(ctx, "HPEXPIRETIME", "sclv", name, "FIELDS", (long long)fields->count,
                         fields->names, fields->count);
    if (!reply) {
        no_ttls = errno == ENOENT;
        return INT64_MAX;
    }
    int64_t first_ms = firstOf(reply);
    RedisModule_FreeCallReply(reply);
    return first_ms;
}

/* The command is called between two steps of the scan, not while the key is scanned. */
static int64_t firstEndByCommand(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleKey *key) {
    struct fields fields = {0};
    int64_t first_ms = INT64_MAX;
    RedisModuleScanCursor *cursor = RedisModule_ScanCursorCreate();
    bool continues = true;
    while (continues && !no_ttls) {
        continues = RedisModule_ScanKey(key, cursor, fieldttlAddField, &fields);
        int64_t end_ms = fields.count > 0 ? fieldttlAsk(ctx, name, &fields) : INT64_MAX;
        first_ms = end_ms < first_ms ? end_ms : first_ms;
        fieldttlForget(&fields);
    }
    RedisModule_ScanCursorDestroy(cursor);
    memFree(fields.names);
    return first_ms;
}

int64_t fieldttlFirstEnd(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleKey *key) {
    if (!RedisModule_HashFieldMinExpire) {
        return no_ttls ? INT64_MAX : firstEndByCommand(ctx, name, key);
    }
    mstime_t end_ms = RedisModule_HashFieldMinExpire(key);
    return end_ms == REDISMODULE_NO_EXPIRE ? INT64_MAX : end_ms;
}
