/* LOCK.TOP. What it shows is counted by toplocks.c. */
#include <stddef.h>
#include <stdint.h>

#include "commands/args.h"
#include "commands/commands.h"
#include "common/reply.h"
#include "observing/toplocks.h"
#include "waits/contended.h"
#include "waits/waiter.h"

/* How long the first in the queue has waited, in µs; its wait has not ended yet and is not counted.
 * If only the beginning of the name is known, the queue cannot be found. */
static int64_t firstHasWaited(const struct contentionView *view, RedisModuleString *name) {
    struct lock *lock = view->is_cut ? NULL : contendedFind(view->db, name);
    struct position *first = lock ? waitqueueFirst(&lock->queue) : NULL;
    int64_t began_us = first ? waiterOfPosition(first)->began_us : 0;
    return began_us ? (int64_t)RedisModule_MonotonicMicroseconds() - began_us : 0;
}

static int64_t longest(const struct contentionView *view, RedisModuleString *name) {
    int64_t first_us = firstHasWaited(view, name);
    return first_us > view->longest_us ? first_us : view->longest_us;
}

static void replyLock(RedisModuleCtx *ctx, const struct contentionView *view) {
    RedisModuleString *name = RedisModule_CreateString(ctx, view->name, view->name_length);
    replyMap(ctx, 9);
    replyFieldString(ctx, "lock", name);
    replyFieldInteger(ctx, "db", view->db);
    replyFieldInteger(ctx, "waits", (int64_t)view->waits);
    replyFieldInteger(ctx, "waiters", (int64_t)view->waiting);
    replyFieldInteger(ctx, "usec", view->time_us);
    replyFieldInteger(ctx, "usec_per_wait", view->waits ? view->time_us / (int64_t)view->waits : 0);
    replyFieldInteger(ctx, "usec_longest", longest(view, name));
    if (view->kept) {
        replyFieldInteger(ctx, "usec_per_hold", view->kept_us / (int64_t)view->kept);
    } else {
        replyFieldNull(ctx, "usec_per_hold");
    }
    replyFieldInteger(ctx, "usec_error", view->error_us);
    RedisModule_FreeString(ctx, name);
}

/* LOCK.TOP [COUNT n] [RESET] */
int topCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    const struct args args = argsOf(ctx, argv, argc);
    struct argsOptions options;
    if (argsOptionsOrReply(&args, 1, ARGS_COUNT | ARGS_RESET, &options) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    struct contentionView top[CONTENTION_LOCKS];
    size_t length = toplocksNow(top, (size_t)options.count);
    replyList(ctx, (long)length);
    for (size_t i = 0; i < length; i++) {
        replyLock(ctx, &top[i]);
    }
    if (options.given & ARGS_RESET) {
        toplocksReset();
    }
    return REDISMODULE_OK;
}
