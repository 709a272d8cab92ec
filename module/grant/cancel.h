/* LOCK.CANCEL: ends an owner's waits for a lock, or releases what they have acquired. */
#ifndef LOCK_CANCEL_H
#define LOCK_CANCEL_H

#include "grant/release.h"
#include "redismodule.h"
#include "server/reply.h"

/* Ends every wait of `gives_up->owner` for this lock of the selected database, and every wait for
 * replicas to acknowledge a grant of it, which the drain then releases. The clients receive null.
 * RESULT_DONE: `count` is 1, or 0 if the owner did not wait. RESULT_TRY_AGAIN while the keys of its
 * position may be on another node; RESULT_KEY_IN_USE while they are in use. RESULT_WRONG_TYPE only
 * if it did not wait, because a client may wait for a key that has been overwritten. */
enum result cancelWaits(RedisModuleCtx *ctx, RedisModuleString *name,
                        const struct release *gives_up, struct outcome *outcome);

/* The same for an owner that gives up while a grant may be on its way to it: if it did not wait,
 * the hold that `gives_up` describes is released, and the lock is handed off. RESULT_DONE: `count`
 * is 1 as above, 2 if the hold was released, or 0 if the owner had no such hold. RESULT_BOTH_MODES;
 * or as above. */
enum result cancelOrRelease(RedisModuleCtx *ctx, RedisModuleString *name,
                            const struct release *gives_up, struct outcome *outcome);

#endif
