/* Waits that LOCK.CANCEL has cancelled, if there are more of them than can be removed from their
 * queues in one time slice. One record describes all of them, by lock, owner and age. The drain
 * ends them in time slices.
 *
 * Until then they remain in the queues, but are not granted. Code that finds such a wait ends it.
 */
#ifndef LOCK_CANCELLED_H
#define LOCK_CANCELLED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/features.h"
#include "queue/waiters.h"
#include "redismodule.h"

/* Cancels all waits of this owner for this lock of the selected database; waits that begin later
 * are not cancelled. */
void cancelledAdd(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner);

/* Whether this wait is cancelled. Costs one comparison if no wait is cancelled. */
bool cancelledHas(const struct waiter *waiter);

/* Ends the wait and frees the waiter if it is cancelled. Returns whether it was. */
bool cancelledFindAndEnd(RedisModuleCtx *ctx, struct waiter *waiter);
static inline bool cancelledEndIf(RedisModuleCtx *ctx, struct waiter *waiter) {
    return featuresHas(FEATURE_CANCELLATIONS) && cancelledFindAndEnd(ctx, waiter);
}

/* The first position of this owner in this lock's queue, in the selected database, whose wait is
 * not cancelled, or NULL. */
struct position *cancelledFirstOther(RedisModuleCtx *ctx, RedisModuleString *name,
                                     RedisModuleString *owner);

/* Whether this owner may have cancelled waits that are still in their queues. */
bool cancelledConcerns(const char *owner, size_t length);

/* How many cancellations are still to be completed. */
size_t cancelledCount(void);

/* The job of the drain. It writes no keys, so it also runs while clients are paused. */
void cancelledGoOn(RedisModuleCtx *ctx, int64_t now_ms);

/* To be called when the server has become a replica, and has replied to all waiting clients. */
void cancelledForget(RedisModuleCtx *ctx);

#endif
