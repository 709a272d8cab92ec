/* Redirections: where to send a client that waits for a key whose slot another node serves now.
 *
 * The server is queried once for many keys: call redirectFind for each, then redirectForget.
 */
#ifndef LOCK_REDIRECT_H
#define LOCK_REDIRECT_H

#include "redismodule.h"

/* The error for a client that waits for this key, which this node no longer serves: MOVED when
 * another node serves the slot, ASK when the slot is being moved and the key has moved already.
 * NULL when that cannot be determined: then the reply is TRYAGAIN, and when the client retries, the
 * server itself replies. Valid until the next call of a function of this file. */
RedisModuleString *redirectFind(RedisModuleCtx *ctx, RedisModuleString *name);

/* To be called when all clients have been redirected, because the next time it may be different. */
void redirectForget(void);

#endif
