/* Several keys, all or none: LOCK.MACQUIRE, LOCK.MRELEASE. */
#include "commands/args.h"
#include "commands/handlers.h"
#include "commands/outcome.h"
#include "grant/several.h"

/* What both commands are given. */
struct arguments {
    struct severalNames locks;
    RedisModuleString *owner;
    struct argsOptions options;
    int64_t now_ms;
};

/* numkeys key [key ...] owner [options out of `allowed`] */
static int argumentsOrReply(RedisModuleCtx *ctx, RedisModuleString **argv, int argc,
                            unsigned allowed, struct arguments *arguments) {
    int keys;
    if (argc < 4) {
        RedisModule_WrongArity(ctx);
        return REDISMODULE_ERR;
    }
    arguments->now_ms = RedisModule_Milliseconds();
    if (argsNumkeysOrReply(ctx, argv, argc, &keys) != REDISMODULE_OK ||
        argsOwnerOrReply(ctx, argv[2 + keys]) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    arguments->locks = (struct severalNames){&argv[2], (size_t)keys};
    arguments->owner = argv[2 + keys];
    return argsOptionsOrReply(ctx, argv, argc, 3 + keys, allowed, arguments->now_ms,
                              &arguments->options);
}

/* Tells the server which of the arguments are keys. The key spec says it too, but to find out whose
 * slot a command is for no server looks at a spec of this kind. */
static int tellKeys(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, int flags) {
    long long count;
    if (argc < 4 || RedisModule_StringToLongLong(argv[1], &count) != REDISMODULE_OK ||
        count > argc - 2) {
        count = 0;
    }
    for (int i = 0; i < count; i++) {
        RedisModule_KeyAtPosWithFlags(ctx, 2 + i, flags);
    }
    return REDISMODULE_OK;
}

/* LOCK.MACQUIRE numkeys key [key ...] owner [PX ms | EX s | SESSION] [BLOCK ms] */
int macquireCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (RedisModule_IsKeysPositionRequest(ctx)) {
        return tellKeys(ctx, argv, argc,
                        REDISMODULE_CMD_KEY_RW | REDISMODULE_CMD_KEY_ACCESS |
                            REDISMODULE_CMD_KEY_UPDATE);
    }
    struct arguments arguments;
    unsigned long long session = 0;
    if (argumentsOrReply(ctx, argv, argc, ARGS_LEASE | ARGS_BLOCK, &arguments) != REDISMODULE_OK ||
        ((arguments.options.given & ARGS_SESSION) &&
         argsSessionOrReply(ctx, &session) != REDISMODULE_OK)) {
        return REDISMODULE_OK;
    }
    struct severalRequest request = {
        .locks = arguments.locks,
        .take = {.owner = arguments.owner,
                 .mode = MODE_EXCLUSIVE,
                 .lease_ms = arguments.options.lease_ms,
                 .session = session},
        .block_ms = arguments.options.block_ms,
        .now_ms = arguments.now_ms,
    };
    struct grantOutcome outcome = {0};
    enum grantResult result = severalAcquire(ctx, &request, &outcome);
    return outcomeReply(ctx, result, &outcome);
}

/* LOCK.MRELEASE numkeys key [key ...] owner */
int mreleaseCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (RedisModule_IsKeysPositionRequest(ctx)) {
        return tellKeys(ctx, argv, argc,
                        REDISMODULE_CMD_KEY_RW | REDISMODULE_CMD_KEY_ACCESS |
                            REDISMODULE_CMD_KEY_DELETE);
    }
    struct arguments arguments;
    if (argumentsOrReply(ctx, argv, argc, 0, &arguments) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    struct grantOutcome outcome = {0};
    enum grantResult result =
        severalRelease(ctx, &arguments.locks, arguments.owner, arguments.now_ms, &outcome);
    return outcomeReply(ctx, result, &outcome);
}
