/* Refuses waits that would never end (docs/design.md, "Cycles"). Makes the search of cyclesearch.h
 * with the holders that are in the keys, and writes the text that describes the cycle. */
#ifndef LOCK_DEADLOCK_H
#define LOCK_DEADLOCK_H

#include <stdint.h>

#include "queue/waiters.h"
#include "redismodule.h"

/* The job of the drain. Searches for a cycle from each newcomer of waitersGraph() whose time has
 * come, and ends the waits that close a cycle with DEADLOCK. The searches are made in order of
 * arrival, so that the last wait of a cycle is refused. Each cycle counts as one deadlock. A search
 * that takes long is continued in the next time slice. All searches together use at most a quarter
 * of a core. During a quarantine no search is made, because a hold that prevents a grant may have
 * been released by its owner on the previous master.
 *
 * No search is made inside a command, because in a cluster a command can open keys of its own slot
 * only. From Redis 7.4 and Valkey 8 on, the keys of each slot are stored separately, and a key that
 * is opened while a client's command runs is looked up among the keys of that client's slot. */
void deadlockSearch(RedisModuleCtx *ctx, int64_t now_ms);

/* The part of the job that can be done while no key may be written. Ends a search whose newcomer no
 * longer waits. */
void deadlockHold(RedisModuleCtx *ctx, int64_t now_ms);

/* Ends the search on a replica, where no client waits. */
void deadlockForget(RedisModuleCtx *ctx);

/* To be called when a quarantine has ended. No search is made until the grant passes have run,
 * because holders may wait in the middle of queues, where no search expects them. */
void deadlockQuarantineEnded(RedisModuleCtx *ctx);

/* The cycles that are possible with a single lock: an owner that waits for itself, and two readers
 * that wait for each other to release their read holds. They are refused even if
 * lock.deadlock-detection is off. Return the text of the reply, which the caller must free with
 * RedisModule_FreeString. Each call counts as a deadlock. */
RedisModuleString *deadlockOfOne(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *owner);
RedisModuleString *deadlockOfTwo(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *one, RedisModuleString *other);

#endif
