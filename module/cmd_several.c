/* Several keys, all or none: LOCK.MACQUIRE, LOCK.MRELEASE. */
#include "args.h"
#include "handlers.h"
#include "outcome.h"
#include "several.h"

/* LOCK.MACQUIRE numkeys key [key ...] owner [PX ms | EX s | SESSION] [BLOCK ms] */
int macquireCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc < 4) {
        return RedisModule_WrongArity(ctx);
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
    int keys;
    struct argsOptions options;
    int64_t now_ms = RedisModule_Milliseconds();
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
