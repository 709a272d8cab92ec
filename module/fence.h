/* Fencing tokens: numbers that only grow for a key, whatever happens to the lock in between.
 *
 *   lock:token:{key}    hash {token: the last one, owner: who got it},
 *                       TTL = lock.token-retention after its last use
 *
 * A token is the unix time in µs, or more: so a key that was lost, with a flush, a restart or a
 * failover, still gives a larger one. Within a process no token is ever given twice, of whatever
 * key: so a clock that steps back cannot make one smaller either.
 *
 * The only file that reads and writes this key. Each write announces itself (effects.h).
 */
#ifndef LOCK_FENCE_H
#define LOCK_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "redismodule.h"

/* Whether somebody has put something else under the name of this lock's tokens. */
bool fenceIsWrongType(RedisModuleCtx *ctx, RedisModuleString *name);

/* The token of an acquisition by `owner`: the last one if this is a re-entry and the last one is
 * the owner's, else a new one. Written down, unless the key is of another type. */
int64_t fenceIssue(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                   bool is_reentry, int64_t now_ms);

/* The last token of this lock, or 0 if none is known. Changes nothing. */
int64_t fenceLast(RedisModuleCtx *ctx, RedisModuleString *name);

#endif
