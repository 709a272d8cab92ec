/* Acquires locks, or begins to wait for them. After a wait, locks are granted by the grant pass
 * (pass.h).
 *
 * Both functions work in the selected database of `ctx`. With every result except RESULT_DONE and
 * RESULT_WAITING nothing has changed.
 */
#ifndef LOCK_ACQUIRE_H
#define LOCK_ACQUIRE_H

#include "common/reply.h"
#include "grant/multikey.h"
#include "redismodule.h"
#include "waits/request.h"

/* Acquires the lock, or begins to wait for it. Returns:
 *
 *   RESULT_DONE        `count` is the owner's hold count in this mode, or the fencing token
 *   RESULT_WAITING     the client is blocked
 *   RESULT_DEADLOCK    `cycle` is set, and must be freed by the caller
 *
 * or another result, which reply.h explains. */
enum result acquireLock(RedisModuleCtx *ctx, RedisModuleString *name, const struct request *wants,
                        struct outcome *outcome);

/* Acquires all locks, each in its mode, or begins to wait for all of them. `wants` must be of
 * discipline MULTIKEY; its own mode is not used. Removes duplicates from `wanted`
 * (multikeyMakeDistinct). With RESULT_DONE, `count` is the number of locks. The other results are
 * the same as for acquireLock. */
enum result acquireLocks(RedisModuleCtx *ctx, struct multikeyLocks *wanted,
                         const struct request *wants, struct outcome *outcome);

#endif
