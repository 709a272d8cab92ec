/* Waits that LOCK.CANCEL has ended and that are more than a time slice can take out of their queues:
 * they are remembered as one, by lock, owner and age, and the drain ends them in slices.
 *
 * Until then they stand in the queues and are granted nothing: whoever comes across one ends it.
 */
#ifndef LOCK_CANCELLED_H
#define LOCK_CANCELLED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"
#include "waits/waiters.h"

/* All waits of this owner for this lock of the selected database are cancelled, those that begin later
 * are not. */
void cancelledAdd(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner);

/* Whether this wait is. One comparison when none is. */
bool cancelledHas(const struct waiter *waiter);

/* If it is, ends it: the waiter is gone. Returns whether it was. */
bool cancelledEndIf(RedisModuleCtx *ctx, struct waiter *waiter);

/* The first wait of this owner for this lock of the selected database that is not cancelled, or NULL. */
struct position *cancelledFirstOther(RedisModuleCtx *ctx, RedisModuleString *name,
                                     RedisModuleString *owner);

/* Whether this owner may have waits that are cancelled and have yet to leave their queues. */
bool cancelledConcerns(const char *owner, size_t length);

/* How many have yet to be worked off. */
size_t cancelledCount(void);

/* The drain's job. Writes nothing to keys, so it is done while clients are paused, too. */
void cancelledGoOn(RedisModuleCtx *ctx, int64_t now_ms);

/* The server has become a replica, and has answered those who waited. */
void cancelledForget(RedisModuleCtx *ctx);

#endif
