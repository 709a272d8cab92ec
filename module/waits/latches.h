/* The latches that clients wait for with LATCH.WAIT, and the replies when a latch opens.
 *
 * Whether a latch is open is read from its key (latchkey.h). But when a command of the module opens
 * a latch, all clients that wait at that moment receive the reply, even if the latch is set again
 * at once.
 */
#ifndef LOCK_LATCHES_H
#define LOCK_LATCHES_H

#include <stddef.h>
#include <stdint.h>

#include "blocking/blockingkey.h"
#include "common/reply.h"
#include "core/features.h"
#include "keys/latchkey.h"
#include "redismodule.h"

struct latchesTimes {
    int64_t block_ms; /* BLOCK; negative: does not wait */
    int64_t now_ms;
};

/* Makes the client of the running command wait for the latch, which must be shut. If the result is
 * RESULT_WAITING, the client is blocked, and the caller must subscribe to changes of strings
 * (eventsWatchStrings). The other results are RESULT_BUSY and RESULT_TOO_MANY_WAITERS, as for
 * simplewaitBegin. */
enum result latchesWait(const struct latchkey *latch, const struct latchesTimes *times);

/* To be called when a command has opened the latch `name` in the selected database. The drain
 * replies to the clients that wait for the latch. It also runs the grant pass for a lock of that
 * name, which no owner holds now. */
void latchesOpened(RedisModuleCtx *ctx, RedisModuleString *name);

/* To be called when a command has set the latch, has freed a lock of this name, or has changed when
 * that lock's key expires. The drain checks whether the latch is open, and when its key expires
 * now. Costs one comparison if no client waits for any latch. */
void latchesChangedKey(RedisModuleCtx *ctx, RedisModuleString *name);
static inline void latchesChanged(RedisModuleCtx *ctx, RedisModuleString *name) {
    if (featuresHas(FEATURE_LATCH_WAITS)) {
        latchesChangedKey(ctx, name);
    }
}

/* How many clients wait for latches. */
size_t latchesWaiting(void);

#endif
