/* Watches: LOCK.WATCH, by which an owner is told that it has lost a lock, or that somebody else
 * waits for it.
 *
 * A watch is no waiter: it stands in no queue, and in nobody's way. Whether its owner holds the
 * lock the key says; who else waits, the lock's queue.
 */
#ifndef LOCK_WATCHES_H
#define LOCK_WATCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/holds.h"
#include "redismodule.h"
#include "server/reply.h"

struct watchRequest {
    RedisModuleString *owner;
    bool wants_wanted; /* WANTED: is to be told too that somebody else waits */
    int64_t block_ms;  /* BLOCK; below 0: it does not wait */
    int64_t now_ms;
};

/* What there is to be told now of the lock, opened to read. REPLY_WORD_COUNT: nothing. */
enum replyWord watchesState(struct holds *holds, const struct watchRequest *request);

/* The client watches the lock, of which there is nothing to be told now. RESULT_WAITING: the caller
 * sees to it that what may overwrite the key is heard of (events.h). Or RESULT_BUSY,
 * RESULT_TOO_MANY_WAITERS, as keywaitBegin. */
enum result watchesBegin(struct holds *holds, const struct watchRequest *request);

/* To be called when something was done to a lock in the selected database, for the drain to look.
 * Each is one comparison when nobody watches any lock. */

/* This owner has lost a hold, or has a lease that may end sooner. */
void watchesNoteOwner(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner);
/* All owners have. */
void watchesNoteAll(RedisModuleCtx *ctx, RedisModuleString *name);
/* Somebody stands in its queue who did not stand there before. */
void watchesNoteWaiter(RedisModuleCtx *ctx, RedisModuleString *name);

/* How many watches there are of this lock; of all. */
size_t watchesOf(RedisModuleCtx *ctx, RedisModuleString *name);
size_t watchesCount(void);

#endif
