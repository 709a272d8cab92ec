/* The null replies to waits that ended without what they waited for: by LOCK.CANCEL, or timed out.
 *
 * Many may end in one step, of one command or in one ms. Their ends are one step, their replies are
 * not: after some the drain sends the others, in time slices. Until then their clients stay blocked.
 */
#ifndef LOCK_NULLREPLIES_H
#define LOCK_NULLREPLIES_H

#include <stddef.h>
#include <stdint.h>

#include "blocking/blocked.h"
#include "redismodule.h"

/* Replies null to the client, if there is one: now or soon. The client is gone then; the deadline
 * stays. */
void nullrepliesSend(RedisModuleCtx *ctx, struct blocked *client);

/* The drain's job. Writes nothing to keys, so it is done while clients are paused, too. */
void nullrepliesGoOn(RedisModuleCtx *ctx, int64_t now_ms);

#endif
