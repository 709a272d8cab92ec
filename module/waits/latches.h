/* The latches that somebody waits for, by LATCH.WAIT, and telling who waits that one is open.
 *
 * Whether it is open the key says (latchkey.h); but an opening by a command of ours counts for all
 * who waited then, however soon somebody sets the latch again.
 */
#ifndef LOCK_LATCHES_H
#define LOCK_LATCHES_H

#include <stddef.h>
#include <stdint.h>

#include "blocking/waitedkey.h"
#include "keys/latchkey.h"
#include "redismodule.h"
#include "server/reply.h"

struct latchesTimes {
    int64_t block_ms; /* BLOCK; below 0: it does not wait */
    int64_t now_ms;
};

/* The client waits for the latch, which is shut. RESULT_WAITING: the caller sees to it that changes
 * of strings are heard of (events.h). Or RESULT_BUSY, RESULT_TOO_MANY_WAITERS, as keywaitBegin. */
enum result latchesWait(const struct latchkey *latch, const struct latchesTimes *times);

/* A command has opened the latch `name`: the drain tells who waits, and lets in who waits for a
 * lock of that name, which nobody holds now. */
void latchesOpened(RedisModuleCtx *ctx, RedisModuleString *name);

/* A command has set it, or has freed a lock that was in its place, or changed when that ends: the
 * drain looks whether it is open, and when its key expires now. One comparison when nobody waits
 * for any. */
void latchesChanged(RedisModuleCtx *ctx, RedisModuleString *name);

/* How many clients wait. */
size_t latchesWaiting(void);

#endif
