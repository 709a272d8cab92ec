/* Several keys, all or none: LOCK.MACQUIRE, LOCK.MRELEASE. */
#include "args.h"
#include "handlers.h"
#include "outcome.h"
#include "several.h"

/* Tells the server which of the arguments are keys. The key spec says it too, but to find out whose
 * slot a command is for no server looks at a spec of this kind. */
static void tellKeys(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, int flags) {
    long long count;
    if (RedisModule_StringToLongLong(argv[1], &count) != REDISMODULE_OK || count < 1 ||
        count > argc - 2) {
        return;
    }
    for (int i = 0; i < count; i++) {
        RedisModule_KeyAtPosWithFlags(ctx, 2 + i, flags);
    }
}

/* LOCK.MACQUIRE numkeys key [key ...] owner [PX ms | EX s | SESSION] [BLOCK ms] */
int macquireCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc < 4) {
        return RedisModule_WrongArity(ctx);
    }
    if (RedisModule_IsKeysPositionRequest(ctx)) {
        tellKeys(ctx, argv, argc,
                 REDISMODULE_CMD_KEY_RW | REDISMODULE_CMD_KEY_ACCESS | REDISMODULE_CMD_KEY_UPDATE);
        return REDISMODULE_OK;
    }
    int64_t now_ms = RedisModule_Milliseconds();
    int keys;
    struct argsOptions options;
    if (argsNumkeysOrReply(ctx, argv, argc, &keys) != REDISMODULE_OK ||
        argsOwnerOrReply(ctx, argv[2 + keys]) != REDISMODULE_OK ||
        argsOptionsOrReply(ctx, argv, argc, 3 + keys, ARGS_LEASE | ARGS_BLOCK, now_ms, &options) !=
            REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    unsigned long long session = 0;
    if ((options.given & ARGS_SESSION) && argsSessionOrReply(ctx, &session) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    struct severalRequest request = {
        .locks = {&argv[2], (size_t)keys},
        .take = {.owner = argv[2 + keys],
                 .mode = MODE_EXCLUSIVE,
                 .lease_ms = options.lease_ms,
                 .session = session},
        .block_ms = options.block_ms,
        .now_ms = now_ms,
    };
    struct grantOutcome outcome = {0};
    enum grantResult result = severalAcquire(ctx, &request, &outcome);
    return outcomeReply(ctx, result, &outcome);
}

/* LOCK.MRELEASE numkeys key [key ...] owner */
int mreleaseCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc < 4) {
        return RedisModule_WrongArity(ctx);
    }
    if (RedisModule_IsKeysPositionRequest(ctx)) {
        tellKeys(ctx, argv, argc,
                 REDISMODULE_CMD_KEY_RW | REDISMODULE_CMD_KEY_ACCESS | REDISMODULE_CMD_KEY_DELETE);
        return REDISMODULE_OK;
    }
    int64_t now_ms = RedisModule_Milliseconds();
    int keys;
    struct argsOptions options;
    if (argsNumkeysOrReply(ctx, argv, argc, &keys) != REDISMODULE_OK ||
        argsOwnerOrReply(ctx, argv[2 + keys]) != REDISMODULE_OK ||
        argsOptionsOrReply(ctx, argv, argc, 3 + keys, 0, now_ms, &options) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    struct severalNames locks = {&argv[2], (size_t)keys};
    struct grantOutcome outcome = {0};
    enum grantResult result = severalRelease(ctx, &locks, argv[2 + keys], now_ms, &outcome);
    return outcomeReply(ctx, result, &outcome);
}
