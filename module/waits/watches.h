/* Watches: LOCK.WATCH, which notifies an owner that it has lost a lock, or that another owner waits
 * for it.
 *
 * A watch is not a waiter: it is in no queue and delays nobody. Whether its owner holds the lock is
 * read from the key; who else waits, from the lock's queue.
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
    bool wants_wanted; /* WANTED: also reply when another owner waits */
    int64_t block_ms;  /* BLOCK; negative: it does not wait */
    int64_t now_ms;
};

/* The event that LOCK.WATCH has to report now of the lock, which is open for reading.
 * REPLY_WORD_COUNT: none. */
enum replyWord watchesState(struct holds *holds, const struct watchRequest *request);

/* The client of the running command watches the lock, of which there is nothing to report now.
 * RESULT_WAITING: the client is blocked, and the caller must subscribe to what may overwrite the
 * key (eventsWatchOverwrites). Or RESULT_BUSY, RESULT_TOO_MANY_WAITERS, as simplewaitBegin. */
enum result watchesBegin(struct holds *holds, const struct watchRequest *request);

/* To be called when a command or the module has changed a lock in the selected database, for the
 * drain to check its watches. Each is one comparison when nobody watches any lock. */

/* This owner has lost a hold, or has a lease that may expire sooner. */
void watchesNoteOwner(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner);
/* Any owner may have lost its holds. */
void watchesNoteAll(RedisModuleCtx *ctx, RedisModuleString *name);
/* A position has been added to its queue. */
void watchesNoteWaiter(RedisModuleCtx *ctx, RedisModuleString *name);

/* How many watches there are of this lock in the selected database; of all locks. */
size_t watchesOf(RedisModuleCtx *ctx, RedisModuleString *name);
size_t watchesCount(void);

#endif
