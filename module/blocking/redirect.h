/* Where a client is sent that waits for a key whose slot another node serves now.
 *
 * Where the slots are is asked once for many keys: redirectFind for each, then redirectForget.
 */
#ifndef LOCK_REDIRECT_H
#define LOCK_REDIRECT_H

#include "redismodule.h"

/* The error for who waits for this key, which is not ours any more: MOVED when another node serves the
 * slot, ASK when the slot is on its way and the key has gone ahead. NULL when nobody knows: TRYAGAIN,
 * and asked again the server answers by itself. Valid until the next call here. */
RedisModuleString *redirectFind(RedisModuleCtx *ctx, RedisModuleString *name);

/* To be called when all have been sent on, as it may be otherwise the next time. */
void redirectForget(void);

#endif
