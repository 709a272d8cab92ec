/* The null replies to waits that LOCK.CANCEL has cancelled, or that have timed out.
 *
 * Many waits may end in one command or within one ms. They all end in one step, but only some of
 * the null replies are sent at once. The drain sends the others in time slices, and until then the
 * clients remain blocked.
 */
#ifndef LOCK_NULLREPLIES_H
#define LOCK_NULLREPLIES_H

#include <stddef.h>
#include <stdint.h>

#include "blocking/blocked.h"
#include "redismodule.h"

/* Replies null to the client of `client`, if there is one, now or soon. After that `client` has no
 * client, but keeps its deadline. */
void nullrepliesSend(RedisModuleCtx *ctx, struct blocked *client);

/* The job of the drain. It writes no keys, so it also runs while clients are paused. */
void nullrepliesGoOn(RedisModuleCtx *ctx, int64_t now_ms);

#endif
