/* What holds that are bound to connections need: being renewed while the connection lives, given
 * back after it. */
#ifndef LOCK_SESSIONWORK_H
#define LOCK_SESSIONWORK_H

#include "redismodule.h"

/* Does what is due, in a short turn, and sees to the next one. For sessionsConnect. */
void sessionworkRun(RedisModuleCtx *ctx);

#endif
