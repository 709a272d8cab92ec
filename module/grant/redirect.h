/* Sending waiters away whose lock's slot is served by another node now. */
#ifndef LOCK_REDIRECT_H
#define LOCK_REDIRECT_H

#include "redismodule.h"
#include "waits/contended.h"

/* Ends the waits for this lock, which is not ours to grant any more: with MOVED when another node
 * serves the slot, with ASK when the slot is on its way and the key has gone ahead, with TRYAGAIN
 * when nobody knows; asked again, the server then answers by itself. To be called within a turn, for
 * a lock that is due: it stays due, to be called for again, if the turn is over first; else `lock` is
 * gone afterwards. */
void redirectWaiters(RedisModuleCtx *ctx, struct lock *lock);

/* Where the slots are is asked once for all locks: to be called at the end of each turn, as it may be
 * otherwise in the next. */
void redirectForget(void);

#endif
