/* Refusing waits that never end: the search of waitsearch.h, with the holders read from the
 * keys, and the text that names the cycle.
 */
#ifndef LOCK_DEADLOCK_H
#define LOCK_DEADLOCK_H

#include <stdint.h>

#include "redismodule.h"
#include "waits/waiters.h"

/* The drain's job: searches from each newcomer of waitersGraph() whose time has come, and ends the waits
 * that close a cycle with DEADLOCK. In order of arrival, so that of those in a cycle it is the last that is
 * refused. Each cycle counts as a deadlock refused. A search that takes long goes on in the next time
 * slice; all together take a quarter of a core at most. In a quarantine nobody is searched from: a hold
 * that is in the way may be one that its owner released on the master before this one.
 *
 * Not inside a command: in a cluster it can open keys of its own slot only. Since Redis 7.4 and
 * Valkey 8 each slot has its keys apart, and a key that is opened while a client's command runs is
 * looked for among those of that client's slot. */
void deadlockSearch(RedisModuleCtx *ctx, int64_t now_ms);

/* What of it can be done where nothing may be written. */
void deadlockHold(RedisModuleCtx *ctx, int64_t now_ms);

/* The server is a replica, where nobody waits. */
void deadlockForget(RedisModuleCtx *ctx);

/* A quarantine is over. Holders may wait in the middle of queues, where no search expects them:
 * nobody is searched from before the passes have been there. */
void deadlockQuarantineOver(void);

/* The cycles that every lock can make by itself, refused whatever the config says: an owner waits
 * for itself; two readers wait for each other to stop reading. The texts are the caller's, to be freed
 * with RedisModule_FreeString, and count likewise. */
RedisModuleString *deadlockOfOne(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *owner);
RedisModuleString *deadlockOfTwo(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *one, RedisModuleString *other);

#endif
