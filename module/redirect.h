/* Sending waiters away whose lock's slot is served by another node now. */
#ifndef LOCK_REDIRECT_H
#define LOCK_REDIRECT_H

#include "contended.h"
#include "redismodule.h"

/* Ends every wait for this lock, which is not ours to grant any more: with MOVED when another node
 * serves the slot, with ASK when the slot is on its way and the key has gone ahead, with TRYAGAIN
 * when nobody knows; asked again, the server then answers by itself. `lock` is gone afterwards. */
void redirectWaiters(RedisModuleCtx *ctx, struct lock *lock);

#endif
