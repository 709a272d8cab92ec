/* Latches: LATCH.SET, LATCH.DOWN, LATCH.WAIT. Clients that wait are replied to by latches.c. */
#include <stdbool.h>

#include "commands/args.h"
#include "commands/commands.h"
#include "common/reply.h"
#include "keys/latchkey.h"
#include "ledger/events.h"
#include "waits/latches.h"

/* Opens the key for writing, and checks its type. */
static int openOrReply(struct latchkey *latch, RedisModuleCtx *ctx, RedisModuleString *name) {
    latchkeyOpen(latch, ctx, name, KEY_TO_WRITE);
    enum result checked = latchkeyCheck(latch);
    if (checked == RESULT_DONE) {
        return REDISMODULE_OK;
    }
    struct outcome outcome = {0};
    replyOutcome(ctx, checked, &outcome);
    latchkeyClose(latch);
    return REDISMODULE_ERR;
}

/* LATCH.SET key count [PX ms | EX s] */
int latchSetCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    static const struct argsInteger wanted = {0, INT64_MAX, REPLY_BAD_COUNT};
    const struct args args = argsOf(ctx, argv, argc);
    struct argsOptions options;
    struct latchkey latch;
    int64_t count;
    if (argc < 3) {
        return RedisModule_WrongArity(ctx);
    }
    if (argsIntegerOrReply(ctx, argv[2], &wanted, &count) != REDISMODULE_OK ||
        argsOptionsOrReply(&args, 3, ARGS_PX | ARGS_EX, &options) != REDISMODULE_OK ||
        openOrReply(&latch, ctx, argv[1]) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    int64_t end_ms = options.given ? args.now_ms + options.wants.lease_ms : LATCHKEY_NO_END;
    latchkeySet(&latch, count, end_ms);
    latchkeyClose(&latch);
    if (count == 0) {
        latchesOpened(ctx, argv[1]);
    } else {
        latchesChanged(ctx, argv[1]);
    }
    return replyWord(ctx, REPLY_OK);
}

/* LATCH.DOWN key [by] */
int latchDownCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    static const struct argsInteger wanted = {1, INT64_MAX, REPLY_BAD_BY};
    struct latchkey latch;
    int64_t by = 1;
    if (argc < 2 || argc > 3) {
        return RedisModule_WrongArity(ctx);
    }
    if ((argc == 3 && argsIntegerOrReply(ctx, argv[2], &wanted, &by) != REDISMODULE_OK) ||
        openOrReply(&latch, ctx, argv[1]) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    int64_t left = latchkeyDown(&latch, by);
    latchkeyClose(&latch);
    if (left == 0) {
        latchesOpened(ctx, argv[1]);
    }
    return replyInteger(ctx, left);
}

static enum result waitFor(const struct latchkey *latch, const struct latchesTimes *times) {
    enum result checked = latchkeyCheck(latch);
    if (checked != RESULT_DONE || latch->state == LATCHKEY_OPEN) {
        return checked;
    }
    enum result result = latchesWait(latch, times);
    if (result == RESULT_WAITING) {
        eventsWatchKeys(latch->ctx);
        eventsWatchStrings(latch->ctx);
    }
    return result;
}

/* LATCH.WAIT key [BLOCK ms] */
int latchWaitCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    const struct args args = argsOf(ctx, argv, argc);
    struct argsOptions options;
    if (argc < 2) {
        return RedisModule_WrongArity(ctx);
    }
    if (argsOptionsOrReply(&args, 2, ARGS_BLOCK, &options) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    const struct latchesTimes times = {options.wants.block_ms, args.now_ms};
    struct latchkey latch;
    latchkeyOpen(&latch, ctx, argv[1], KEY_TO_READ);
    enum result result = waitFor(&latch, &times);
    latchkeyClose(&latch);
    struct outcome open = {.count = 1};
    return replyOutcome(ctx, result, &open);
}
