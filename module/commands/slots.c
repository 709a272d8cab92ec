/* See slots.h. */
#include "commands/slots.h"

#include <stdbool.h>

#include "common/reply.h"
#include "core/keyslot.h"
#include "core/mem.h"
#include "server/server.h"

static int slotsSlotOf(RedisModuleString *name) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    return keyslotOf(bytes, length);
}

static bool areOfOneSlot(RedisModuleString **names, size_t count) {
    int slot = slotsSlotOf(names[0]);
    for (size_t i = 1; i < count; i++) {
        if (slotsSlotOf(names[i]) != slot) {
            return false;
        }
    }
    return true;
}

int slotsCheckOrReply(RedisModuleCtx *ctx, RedisModuleString **names, size_t count) {
    if (!serverIsCluster() || count < 2) {
        return REDISMODULE_OK;
    }
    if (!areOfOneSlot(names, count)) {
        return replyError(ctx, REPLY_CROSS_SLOT);
    }
    return serverHasKeys(ctx, names, count) ? REDISMODULE_OK : replyError(ctx, REPLY_TRY_AGAIN);
}

/* `keys`: the names of the inner command's keys. */
static int checkBothOrReply(RedisModuleCtx *ctx, RedisModuleString *name,
                            RedisModuleCallReply *keys) {
    size_t count = RedisModule_CallReplyLength(keys);
    RedisModuleString **names = memAlloc((1 + count) * sizeof(*names));
    names[0] = name;
    for (size_t i = 0; i < count; i++) {
        RedisModuleCallReply *key = RedisModule_CallReplyArrayElement(keys, i);
        names[1 + i] = RedisModule_CreateStringFromCallReply(key);
    }
    int checked = slotsCheckOrReply(ctx, names, 1 + count);
    for (size_t i = 0; i < count; i++) {
        RedisModule_FreeString(ctx, names[1 + i]);
    }
    memFree(names);
    return checked;
}

int slotsCheckInnerOrReply(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString **argv,
                           int argc) {
    bool has_arguments = argc > 1;
    if (!serverIsCluster() || !has_arguments) {
        return REDISMODULE_OK;
    }
    /* Not by RedisModule_GetCommandKeysWithFlags: some servers leak memory in it, and for another
     * module's command it may return the first key only. */
    RedisModuleCallReply *keys =
        RedisModule_Call(ctx, "COMMAND", "cv", "GETKEYS", argv, (size_t)argc);
    if (!keys) {
        return replyError(ctx, REPLY_NOT_RUN);
    }
    bool none = RedisModule_CallReplyType(keys) != REDISMODULE_REPLY_ARRAY;
    int checked = none ? REDISMODULE_OK : checkBothOrReply(ctx, name, keys);
    RedisModule_FreeCallReply(keys);
    return checked;
}
