/* LOCK.WATCH. Clients that wait are replied to by watches.c. */
#include "commands/args.h"
#include "commands/commands.h"
#include "common/reply.h"
#include "keys/holds.h"
#include "ledger/events.h"
#include "ledger/ledger.h"
#include "observing/watches.h"

static enum result cmdWatchCheck(struct holds *holds) {
    if (holds->kind == HOLDS_WRONG_TYPE) {
        return RESULT_WRONG_TYPE;
    }
    return holdsLeasesAreHere(holds) ? RESULT_DONE : RESULT_TRY_AGAIN;
}

static enum result cmdWatchBegin(struct holds *holds, const struct watchRequest *request) {
    enum result result = watchesBegin(holds, request);
    if (result == RESULT_WAITING) {
        eventsWatchKeys(holds->ctx);
        eventsWatchOverwrites(holds->ctx);
    }
    return result;
}

static void watch(struct holds *holds, const struct watchRequest *request) {
    struct outcome outcome = {0};
    enum result result = cmdWatchCheck(holds);
    if (result == RESULT_DONE) {
        enum replyWord word = watchesState(holds, request);
        if (word != REPLY_WORD_COUNT) {
            replyWord(holds->ctx, word);
            return;
        }
        result = cmdWatchBegin(holds, request);
    }
    replyOutcome(holds->ctx, result, &outcome);
}

/* LOCK.WATCH key owner [WANTED] [BLOCK ms] */
int watchCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    const struct args args = argsOf(ctx, argv, argc);
    struct argsOptions options;
    if (argc < 3) {
        return RedisModule_WrongArity(ctx);
    }
    if (argsOwnerOrReply(ctx, argv[2]) != REDISMODULE_OK ||
        argsOptionsOrReply(&args, 3, ARGS_WANTED | ARGS_BLOCK, &options) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    const struct watchRequest request = {argv[2], options.given & ARGS_WANTED,
                                         options.wants.block_ms, args.now_ms};
    struct holds holds;
    ledgerConfirmed(ctx, argv[1], argv[2]);
    holdsOpenToRead(&holds, ctx, argv[1], args.now_ms);
    watch(&holds, &request);
    holdsClose(&holds);
    return REDISMODULE_OK;
}
