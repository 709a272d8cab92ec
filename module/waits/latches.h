/* The latches that clients wait for, by LATCH.WAIT, and the replies when one opens.
 *
 * Whether a latch is open is read from its key (latchkey.h). But when a command of the module opens
 * it, that counts for all clients that wait at that moment, however soon the latch is set again.
 */
#ifndef LOCK_LATCHES_H
#define LOCK_LATCHES_H

#include <stddef.h>
#include <stdint.h>

#include "blocking/blockingkey.h"
#include "keys/latchkey.h"
#include "redismodule.h"
#include "server/reply.h"

struct latchesTimes {
    int64_t block_ms; /* BLOCK; negative: it does not wait */
    int64_t now_ms;
};

/* The client of the running command waits for the latch, which is shut. RESULT_WAITING: the client
 * is blocked, and the caller must subscribe to changes of strings (eventsWatchStrings). Or
 * RESULT_BUSY, RESULT_TOO_MANY_WAITERS, as simplewaitBegin. */
enum result latchesWait(const struct latchkey *latch, const struct latchesTimes *times);

/* A command has opened the latch `name` in the selected database. The drain replies to the clients
 * that wait for it, and runs the grant pass for a lock of that name, which nobody holds now. */
void latchesOpened(RedisModuleCtx *ctx, RedisModuleString *name);

/* A command has set the latch, or has freed a lock that had this name, or has changed when that
 * lock's key expires: the drain checks whether the latch is open, and when its key expires now. One
 * comparison when nobody waits for any latch. */
void latchesChanged(RedisModuleCtx *ctx, RedisModuleString *name);

/* How many clients wait. */
size_t latchesWaiting(void);

#endif
