/* Acquiring locks, at once or after a wait. What comes after the wait is the grant pass: pass.h.
 *
 * Both functions work in the selected database of `ctx`. Every result but RESULT_DONE and
 * RESULT_WAITING leaves everything as it was.
 */
#ifndef LOCK_ACQUIRE_H
#define LOCK_ACQUIRE_H

#include "grant/multikey.h"
#include "redismodule.h"
#include "server/reply.h"
#include "waits/acquisition.h"

/* Acquires, or begins to wait. On RESULT_DONE `count` is the owner's hold count in this mode, or the
 * fencing token. */
enum result acquireLock(RedisModuleCtx *ctx, RedisModuleString *name,
                        const struct acquisition *wants, struct outcome *outcome);

/* Acquires all, or begins to wait for all; `wants` is exclusive, of discipline MULTIKEY. On RESULT_DONE
 * `count` is the number of locks. A name that is given twice is one lock. */
enum result acquireLocks(RedisModuleCtx *ctx, const struct multikeyNames *names,
                         const struct acquisition *wants, struct outcome *outcome);

#endif
