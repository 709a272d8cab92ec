/* Refusing waits that never end: the search of waitsearch.h, with the holders read from the
 * keys, and the text that names the cycle.
 */
#ifndef LOCK_DEADLOCK_H
#define LOCK_DEADLOCK_H

#include <stdint.h>

#include "redismodule.h"
#include "waits/waiters.h"

/* The text of the cycle that the wait of this newcomer of waitersGraph() closes, or NULL: there is
 * none, lock.deadlock-detection is off, or the search would have taken too long (which INFO counts).
 * The text is the caller's, to be freed with RedisModule_FreeString. Each text counts as a deadlock
 * refused. Leaves any database selected.
 *
 * Not inside a command: in a cluster it can open keys of its own slot only. Since Redis 7.4 and
 * Valkey 8 each slot has its keys apart, and a key that is opened while a client's command runs is
 * looked for among those of that client's slot. */
RedisModuleString *deadlockFind(RedisModuleCtx *ctx, const struct waiter *newcomer, int64_t now_ms);

/* The cycles that every lock can make by itself, refused whatever the config says: an owner waits
 * for itself; two readers wait for each other to stop reading. */
RedisModuleString *deadlockOfOne(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *owner);
RedisModuleString *deadlockOfTwo(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *one, RedisModuleString *other);

#endif
