/* LOCK.CANCEL: ending an owner's waits for a lock, or what has come of them. */
#ifndef LOCK_CANCEL_H
#define LOCK_CANCEL_H

#include "grant/release.h"
#include "redismodule.h"
#include "server/reply.h"

/* Ends every wait of `gives_up->owner` for this lock of the selected database, and for replicas that are to
 * acknowledge what it has been granted there, which the drain then releases; their clients get null.
 * RESULT_DONE (`count`: 1, or 0 if it did not wait); RESULT_TRY_AGAIN while the keys of its position may
 * be on another node; RESULT_KEY_IN_USE while they are in use; or, when it did not wait,
 * RESULT_WRONG_TYPE: a client may wait for a key that has been overwritten. */
enum result cancelWaits(RedisModuleCtx *ctx, RedisModuleString *name,
                        const struct release *gives_up, struct outcome *outcome);

/* The same for who gives up while a grant may be on its way: an owner that did not wait releases
 * what `gives_up` says, and the lock is handed off. RESULT_DONE (`count`: 1 as above; 2: released; 0:
 * it has not got what it gives up, and nothing is changed); RESULT_BOTH_MODES; or as above. */
enum result cancelOrRelease(RedisModuleCtx *ctx, RedisModuleString *name,
                            const struct release *gives_up, struct outcome *outcome);

#endif
