/* Releasing and taking away: LOCK.RELEASE, LOCK.FORCE, LOCK.CANCEL. */
#include "commands/args.h"
#include "commands/handlers.h"
#include "commands/outcome.h"
#include "grant/grant.h"

/* LOCK.RELEASE key owner [READ | WRITE] */
int releaseCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc < 3) {
        return RedisModule_WrongArity(ctx);
    }
    int64_t now_ms = RedisModule_Milliseconds();
    struct argsOptions options;
    if (argsOwnerOrReply(ctx, argv[2]) != REDISMODULE_OK ||
        argsOptionsOrReply(ctx, argv, argc, 3, ARGS_READ | ARGS_WRITE, now_ms, &options) !=
            REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    enum releaseWhich which = RELEASE_ONLY_MODE;
    if (options.given) {
        which = options.given & ARGS_READ ? RELEASE_READ : RELEASE_WRITE;
    }
    struct grantOutcome outcome = {0};
    enum grantResult result = grantRelease(ctx, argv[1], argv[2], which, now_ms, &outcome);
    return outcomeReply(ctx, result, &outcome);
}

/* LOCK.FORCE key */
int forceCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc != 2) {
        return RedisModule_WrongArity(ctx);
    }
    struct grantOutcome outcome = {0};
    enum grantResult result = grantForce(ctx, argv[1], RedisModule_Milliseconds(), &outcome);
    return outcomeReply(ctx, result, &outcome);
}

/* LOCK.CANCEL key owner */
int cancelCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc != 3) {
        return RedisModule_WrongArity(ctx);
    }
    if (argsOwnerOrReply(ctx, argv[2]) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    struct grantOutcome outcome = {0};
    enum grantResult result =
        grantCancel(ctx, argv[1], argv[2], RedisModule_Milliseconds(), &outcome);
    return outcomeReply(ctx, result, &outcome);
}
