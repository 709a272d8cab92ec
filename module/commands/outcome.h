/* The one place that turns what grant/ did into the reply of a command. */
#ifndef LOCK_OUTCOME_H
#define LOCK_OUTCOME_H

#include "grant/grantresult.h"
#include "redismodule.h"

/* Replies `result`, with what `outcome` says; nothing when the client has begun to wait.
 * Always returns REDISMODULE_OK, for a handler to return. */
int outcomeReply(RedisModuleCtx *ctx, enum grantResult result, struct grantOutcome *outcome);

#endif
