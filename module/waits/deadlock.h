/* Refuses waits that would never end: the search of cyclesearch.h, with the holders read from the
 * keys, and the text that names the cycle (docs/design.md, "Cycles"). */
#ifndef LOCK_DEADLOCK_H
#define LOCK_DEADLOCK_H

#include <stdint.h>

#include "redismodule.h"
#include "waits/waiters.h"

/* The drain's job: searches from each newcomer of waitersGraph() whose time has come, and ends with
 * DEADLOCK the waits that close a cycle. In order of arrival, so that the last wait of a cycle is
 * the one that is refused. Each cycle counts as one deadlock. A search that takes long is continued
 * in the next time slice; all searches together take at most a quarter of a core. During a
 * quarantine no search is made: a hold that is in the way may be one that its owner released on the
 * previous master.
 *
 * Not inside a command: in a cluster a command can open keys of its own slot only. Since Redis 7.4
 * and Valkey 8 the keys of each slot are stored apart, and a key that is opened while a client's
 * command runs is looked up among those of that client's slot. */
void deadlockSearch(RedisModuleCtx *ctx, int64_t now_ms);

/* The part of the job that can be done while nothing may be written: ends a search whose newcomer
 * no longer waits. */
void deadlockHold(RedisModuleCtx *ctx, int64_t now_ms);

/* The server is a replica, where nobody waits: gives up the search. */
void deadlockForget(RedisModuleCtx *ctx);

/* A quarantine has ended. Holders may wait in the middle of queues, where no search expects them:
 * no search is made until the grant passes have run. */
void deadlockQuarantineEnded(void);

/* The cycles that a single lock can make, refused whatever lock.deadlock-detection says: an owner
 * waits for itself; two readers wait for each other to stop reading. Returns the text of the reply,
 * which the caller frees with RedisModule_FreeString. Counts as a deadlock, too. */
RedisModuleString *deadlockOfOne(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *owner);
RedisModuleString *deadlockOfTwo(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *one, RedisModuleString *other);

#endif
