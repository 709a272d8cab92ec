/* Renewing: LOCK.RENEW. */
#include "commands/args.h"
#include "commands/handlers.h"
#include "commands/outcome.h"
#include "grant/grant.h"

/* LOCK.RENEW key owner [PX ms | EX s | SESSION] */
int renewCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc < 3) {
        return RedisModule_WrongArity(ctx);
    }
    int64_t now_ms = RedisModule_Milliseconds();
    struct argsOptions options;
    if (argsOwnerOrReply(ctx, argv[2]) != REDISMODULE_OK ||
        argsOptionsOrReply(ctx, argv, argc, 3, ARGS_LEASE, now_ms, &options) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    unsigned long long session = 0;
    if ((options.given & ARGS_SESSION) && argsSessionOrReply(ctx, &session) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    enum grantBinding binding = BINDING_KEEP;
    if (options.given) {
        binding = session ? BINDING_NEW : BINDING_END;
    }
    struct grantOutcome outcome = {0};
    enum grantResult result =
        grantRenew(ctx, argv[1], argv[2], options.lease_ms, binding, session, now_ms, &outcome);
    return outcomeReply(ctx, result, &outcome);
}
