/* See infosection.h. The server puts `lock_` before each name. */
#include "commands/infosection.h"

#include "server/stats.h"
#include "waits/contended.h"
#include "waits/sessions.h"
#include "waits/waiters.h"

static void addSection(RedisModuleInfoCtx *ctx, int for_crash_report) {
    (void)for_crash_report;
    if (RedisModule_InfoAddSection(ctx, NULL) == REDISMODULE_ERR) {
        return; /* not asked for */
    }
    RedisModule_InfoAddFieldULongLong(ctx, "waiters", waitersCount());
    RedisModule_InfoAddFieldULongLong(ctx, "waiters_unsearched", waitersNewcomerCount());
    RedisModule_InfoAddFieldULongLong(ctx, "contended_locks", contendedCount());
    RedisModule_InfoAddFieldULongLong(ctx, "sessions", sessionsCount());
    statsAddToInfo(ctx);
}

int infosectionRegister(RedisModuleCtx *ctx) {
    return RedisModule_RegisterInfoFunc(ctx, addSection);
}
