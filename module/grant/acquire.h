/* Acquires locks, or begins to wait for them. Granting them after the wait is the grant pass:
 * pass.h.
 *
 * Both functions work in the selected database of `ctx`. With every result except RESULT_DONE and
 * RESULT_WAITING nothing has changed.
 */
#ifndef LOCK_ACQUIRE_H
#define LOCK_ACQUIRE_H

#include "grant/multikey.h"
#include "redismodule.h"
#include "server/reply.h"
#include "waits/request.h"

/* Acquires the lock, or begins to wait for it. RESULT_DONE: `count` is the owner's hold count in
 * this mode, or the fencing token. RESULT_WAITING: the client is blocked. RESULT_DEADLOCK: `cycle`
 * is the caller's. Or another result that reply.h explains. */
enum result acquireLock(RedisModuleCtx *ctx, RedisModuleString *name, const struct request *wants,
                        struct outcome *outcome);

/* Acquires all locks, or begins to wait for all; `wants` is exclusive, of discipline MULTIKEY. A
 * name that is given twice is one lock. RESULT_DONE: `count` is the number of locks. Other results
 * as of acquireLock. */
enum result acquireLocks(RedisModuleCtx *ctx, const struct multikeyNames *names,
                         const struct request *wants, struct outcome *outcome);

#endif
