/* The null replies to waits that ended without what they waited for: cancelled by LOCK.CANCEL, or
 * timed out.
 *
 * Many waits may end in one command or within one ms. They all end in one step, but only some of
 * the null replies are sent at once: the drain sends the others, in time slices. Until then their
 * clients stay blocked.
 */
#ifndef LOCK_NULLREPLIES_H
#define LOCK_NULLREPLIES_H

#include <stddef.h>
#include <stdint.h>

#include "blocking/blocked.h"
#include "redismodule.h"

/* Replies null to the client, if there is one, now or soon. `client` has no client after that; its
 * deadline stays. */
void nullrepliesSend(RedisModuleCtx *ctx, struct blocked *client);

/* The drain's job. It writes no keys, so it also runs while clients are paused. */
void nullrepliesGoOn(RedisModuleCtx *ctx, int64_t now_ms);

#endif
