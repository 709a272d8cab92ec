/* Acquiring: LOCK.ACQUIRE, LOCK.FAIR, LOCK.RWREAD, LOCK.RWWRITE. */
#include "commands/args.h"
#include "commands/handlers.h"
#include "commands/outcome.h"
#include "grant/acquire.h"

/* What an acquiring command is, apart from its arguments. */
struct kind {
    enum lockMode mode;
    enum discipline discipline;
    unsigned options;
};

/* <command> key owner [options of the kind] */
static int acquire(RedisModuleCtx *ctx, RedisModuleString **argv, int argc,
                   const struct kind *kind) {
    if (argc < 3) {
        return RedisModule_WrongArity(ctx);
    }
    int64_t now_ms = RedisModule_Milliseconds();
    struct argsOptions options;
    if (argsOwnerOrReply(ctx, argv[2]) != REDISMODULE_OK ||
        argsOptionsOrReply(ctx, argv, argc, 3, kind->options, now_ms, &options) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    unsigned long long session = 0;
    if ((options.given & ARGS_SESSION) && argsSessionOrReply(ctx, &session) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    struct acquireRequest request = {
        .name = argv[1],
        .take = {.owner = argv[2],
                 .mode = kind->mode,
                 .lease_ms = options.lease_ms,
                 .session = session,
                 .fenced = options.given & ARGS_FENCED},
        .discipline = kind->discipline,
        .block_ms = options.block_ms,
        .now_ms = now_ms,
    };
    struct grantOutcome outcome = {0};
    enum grantResult result = acquireLock(ctx, &request, &outcome);
    return outcomeReply(ctx, result, &outcome);
}

/* LOCK.ACQUIRE key owner [PX ms | EX s | SESSION] [BLOCK ms] [FENCED] */
int acquireCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    static const struct kind plain = {MODE_EXCLUSIVE, PLAIN, ARGS_LEASE | ARGS_BLOCK | ARGS_FENCED};
    return acquire(ctx, argv, argc, &plain);
}

/* LOCK.FAIR key owner [PX ms | EX s | SESSION] [BLOCK ms] [FENCED] */
int fairCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    static const struct kind fair = {MODE_EXCLUSIVE, FAIR, ARGS_LEASE | ARGS_BLOCK | ARGS_FENCED};
    return acquire(ctx, argv, argc, &fair);
}

/* LOCK.RWREAD key owner [PX ms | EX s | SESSION] [BLOCK ms] */
int readCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    static const struct kind read = {MODE_READ, ORDERED, ARGS_LEASE | ARGS_BLOCK};
    return acquire(ctx, argv, argc, &read);
}

/* LOCK.RWWRITE key owner [PX ms | EX s | SESSION] [BLOCK ms] [FENCED] */
int writeCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    static const struct kind write = {MODE_WRITE, ORDERED, ARGS_LEASE | ARGS_BLOCK | ARGS_FENCED};
    return acquire(ctx, argv, argc, &write);
}
