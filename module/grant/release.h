/* Releases holds before their lease expires: because the owner releases them, by force, because a
 * connection closed before the client received the reply, or because the connection of a session
 * closed. In each case the lock is handed off.
 *
 * All functions work in the selected database of `ctx`, and with one time for each command.
 */
#ifndef LOCK_RELEASE_H
#define LOCK_RELEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/reply.h"
#include "grant/holding.h"
#include "grant/multikey.h"
#include "redismodule.h"

struct release {
    RedisModuleString *owner;
    enum holdingWhich which; /* of LOCK.RELEASE */
    int64_t count;           /* permits of a semaphore; otherwise 1 */
    bool is_lost;            /* a hold whose grant was lost; its owner does not release it */
    int64_t now_ms;
};

/* Releases one hold, or `count` permits, and hands the lock off. RESULT_DONE, with the number of
 * holds left in this mode as `count`; RESULT_NOT_HELD, RESULT_BOTH_MODES, or what holdingCheck
 * returns. */
enum result releaseLock(RedisModuleCtx *ctx, RedisModuleString *name, const struct release *release,
                        struct outcome *outcome);

/* Releases one hold of each lock, and then hands off the locks that have become free. `mode` is
 * that of the hold; MODE_EXCLUSIVE is the only one that the owner has. Removes duplicates from
 * `given` (multikeyMakeDistinct). RESULT_DONE, with the number of locks that the owner no longer
 * holds in that mode as `count`. If releaseLock would return another result for one of the locks,
 * returns that result and changes nothing. */
enum result releaseLocks(RedisModuleCtx *ctx, struct multikeyLocks *given,
                         const struct release *release, struct outcome *outcome);

/* Frees the lock, whoever holds it, and hands it off. RESULT_DONE, with 1 as `count`, or 0 if the
 * lock was free; or what holdingCheck returns. */
enum result releaseForce(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms,
                         struct outcome *outcome);

/* Jobs of the drain. releaseLost releases the holds of clients whose connections closed before they
 * received the reply (rule 5 of docs/design.md). releaseForgetLost is for a replica, and forgets
 * these holds, because only the master may release them. */
void releaseLost(RedisModuleCtx *ctx, int64_t now_ms);
void releaseForgetLost(RedisModuleCtx *ctx);

/* A job of the drain. Releases the holds that replicas have not acknowledged within the timeout,
 * and sends their clients the reply. */
void releaseRefused(RedisModuleCtx *ctx, int64_t now_ms);

/* Releases all holds of the owner on this lock, because its session's connection has closed. */
void releaseSession(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                    int64_t now_ms);

#endif
