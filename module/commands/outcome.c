/* See outcome.h. */
#include "commands/outcome.h"

#include "server/reply.h"

int outcomeReply(RedisModuleCtx *ctx, enum grantResult result, struct grantOutcome *outcome) {
    switch (result) {
    case GRANT_DONE:
        replyInteger(ctx, outcome->count);
        break;
    case GRANT_BUSY:
        replyNull(ctx);
        break;
    case GRANT_WAITING:
        break;
    case GRANT_NOT_HELD:
        replyError(ctx, REPLY_NOT_HELD);
        break;
    case GRANT_WRONG_TYPE:
        replyError(ctx, REPLY_WRONG_TYPE);
        break;
    case GRANT_TOO_MANY_HOLDS:
        replyError(ctx, REPLY_TOO_MANY_HOLDS);
        break;
    case GRANT_TOO_MANY_WAITERS:
        replyError(ctx, REPLY_TOO_MANY_WAITERS);
        break;
    case GRANT_NO_SIDE_KEYS:
        replyError(ctx, REPLY_NO_SIDE_KEYS);
        break;
    case GRANT_TRY_AGAIN:
        replyError(ctx, REPLY_TRY_AGAIN);
        break;
    case GRANT_BOTH_MODES:
        replyError(ctx, REPLY_BOTH_MODES);
        break;
    case GRANT_DEADLOCK:
        replyDeadlock(ctx, outcome->cycle);
        RedisModule_FreeString(ctx, outcome->cycle);
        break;
    }
    return REDISMODULE_OK;
}
