/* Releases holds before their lease expires: by their owner, by force, because a client died before
 * it received the reply, or because a connection closed. Each time the lock is handed off.
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
    int64_t count;           /* permits of a semaphore; otherwise 1 */
    bool is_lost;            /* not by its owner: its grant is lost */
    int64_t now_ms;
};

/* Releases one hold, or `count` permits, and hands the lock off. RESULT_DONE (`count`: holds left
 * in its mode), RESULT_NOT_HELD, RESULT_BOTH_MODES, or what holdingCheck returns. */
enum result releaseLock(RedisModuleCtx *ctx, RedisModuleString *name, const struct release *release,
                        struct outcome *outcome);

/* Releases one hold of each lock, and then hands off those that have become free. A name that is
 * given twice is one lock. RESULT_DONE (`count`: how many locks the owner no longer holds in that
 * mode); or what releaseLock returns for one of them: then nothing has changed. */
enum result releaseLocks(RedisModuleCtx *ctx, const struct multikeyNames *names,
                         const struct release *release, struct outcome *outcome);

/* Frees the lock, whoever holds it, and hands it off. RESULT_DONE (`count`: 1, or 0 if it was
 * free), or what holdingCheck returns. */
enum result releaseForce(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms,
                         struct outcome *outcome);

/* The drain's jobs: releaseLost releases the holds of clients that died before they received the
 * reply (rule 5 of docs/design.md); releaseForgetLost drops them on a replica, where releasing them
 * is up to the master. */
void releaseLost(RedisModuleCtx *ctx, int64_t now_ms);
void releaseForgetLost(RedisModuleCtx *ctx);

/* The drain's job: releases the holds that replicas have not acknowledged within the time, and
 * sends their clients the reply. */
void releaseRefused(RedisModuleCtx *ctx, int64_t now_ms);

/* Releases all holds of the owner on this lock: its connection has closed. */
void releaseSession(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                    int64_t now_ms);

#endif
