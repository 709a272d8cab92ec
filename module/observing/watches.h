/* Watches. LOCK.WATCH notifies an owner that it has lost a lock, or that another owner waits for
 * it.
 *
 * A watch is not a waiter. It is in no queue and delays no client. Whether its owner holds the lock
 * is read from the key. Whether other owners wait is read from the lock's queue.
 */
#ifndef LOCK_WATCHES_H
#define LOCK_WATCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/reply.h"
#include "core/features.h"
#include "keys/holds.h"
#include "redismodule.h"

struct watchRequest {
    RedisModuleString *owner;
    bool wants_wanted; /* WANTED: also reply when another owner waits */
    int64_t block_ms;  /* BLOCK; negative: does not wait */
    int64_t now_ms;
};

/* The event of the lock that LOCK.WATCH must report now, or REPLY_WORD_COUNT if there is none.
 * `holds` must be opened to read. */
enum replyWord watchesState(struct holds *holds, const struct watchRequest *request);

/* Makes the client of the running command watch the lock, for which there must be nothing to report
 * now. If the result is RESULT_WAITING, the client is blocked, and the caller must subscribe to
 * events that may overwrite the key (eventsWatchOverwrites). The other results are RESULT_BUSY and
 * RESULT_TOO_MANY_WAITERS, as for simplewaitBegin. */
enum result watchesBegin(struct holds *holds, const struct watchRequest *request);

/* To be called when a command or the module has changed a lock in the selected database. The drain
 * then checks the watches of the lock. Each call costs one comparison if no client watches any
 * lock. */

/* This owner has lost a hold, or has a lease that may expire sooner. */
void watchesNoteAllOfOwner(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner);
static inline void watchesNoteOwner(RedisModuleCtx *ctx, RedisModuleString *name,
                                    RedisModuleString *owner) {
    if (featuresHas(FEATURE_WATCHES)) {
        watchesNoteAllOfOwner(ctx, name, owner);
    }
}
/* Any owner may have lost its holds. */
void watchesNoteAll(RedisModuleCtx *ctx, RedisModuleString *name);
/* A position has been added to the lock's queue. */
void watchesNoteWaiter(RedisModuleCtx *ctx, RedisModuleString *name);

/* How many watches there are of this lock in the selected database, and of all locks. */
size_t watchesOf(RedisModuleCtx *ctx, RedisModuleString *name);
size_t watchesCount(void);

#endif
