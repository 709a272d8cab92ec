/* How holds end before their lease does: by their owner, by force, with a client that died before
 * it was told, with a connection. Each time the lock is handed off.
 *
 * All functions work in the selected database of `ctx`, and with one time for each command.
 */
#ifndef LOCK_RELEASE_H
#define LOCK_RELEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grant/holding.h"
#include "grant/multikey.h"
#include "redismodule.h"
#include "server/reply.h"

struct release {
    RedisModuleString *owner;
    enum holdingWhich which; /* of LOCK.RELEASE */
    int64_t count;           /* permits of a semaphore; 1 */
    bool is_lost;            /* not by its owner: nobody was told of it */
    int64_t now_ms;
};

/* Releases one hold and hands the lock off. RESULT_DONE (`count`: holds left in its mode),
 * RESULT_NOT_HELD, RESULT_BOTH_MODES, or what holdingCheck says. */
enum result releaseLock(RedisModuleCtx *ctx, RedisModuleString *name, const struct release *release,
                        struct outcome *outcome);

/* Releases one hold of each, and then hands off what has become free. RESULT_DONE (`count`: how
 * many the owner holds no more in that mode); or what releaseLock says of one of them: then nothing
 * is changed. A name that is given twice is one lock. */
enum result releaseLocks(RedisModuleCtx *ctx, const struct multikeyNames *names,
                         const struct release *release, struct outcome *outcome);

/* Frees the lock whoever holds it and hands it off. RESULT_DONE (`count`: 1, or 0 if it was free),
 * or what holdingCheck says. */
enum result releaseForce(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms,
                         struct outcome *outcome);

/* The drain's job: releases the holds of clients that died before they were told. On a replica they
 * are the master's business. */
void releaseLost(RedisModuleCtx *ctx, int64_t now_ms);
void releaseForgetLost(RedisModuleCtx *ctx);

/* The drain's job: releases the holds that replicas have not acknowledged in time, and tells their
 * clients. */
void releaseRefused(RedisModuleCtx *ctx, int64_t now_ms);

/* Releases all holds of the owner on this lock: its connection has closed. */
void releaseSession(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                    int64_t now_ms);

#endif
