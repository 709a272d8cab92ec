/* LOCK.CANCEL: ending an owner's waits for a lock. */
#ifndef LOCK_CANCEL_H
#define LOCK_CANCEL_H

#include "redismodule.h"
#include "server/reply.h"

/* Ends every wait of the owner for this lock of the selected database, and for replicas that are to
 * acknowledge what it has been granted there, which the drain then releases; their clients get null.
 * RESULT_DONE (`count`: 1, or 0 if it did not wait); RESULT_TRY_AGAIN while the keys of its position may
 * be on another node; or, when it did not wait, RESULT_WRONG_TYPE: somebody may wait for a key that has
 * been overwritten. */
enum result cancelWaits(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                        struct outcome *outcome);

#endif
