/* LOCK.CANCEL ends an owner's waits for a lock, or releases the hold that a wait has acquired. */
#ifndef LOCK_CANCEL_H
#define LOCK_CANCEL_H

#include "common/reply.h"
#include "grant/release.h"
#include "redismodule.h"

/* Ends every wait of `gives_up->owner` for this lock of the selected database. Also ends every wait
 * for replicas to acknowledge a grant of the lock to this owner; the drain then releases that
 * grant. The clients receive null. Returns:
 *
 *   RESULT_DONE          `count` is 1, or 0 if the owner did not wait
 *   RESULT_TRY_AGAIN     the keys of the owner's position may be on another node
 *   RESULT_KEY_IN_USE    these keys are in use (see keynamesIsInUse)
 *   RESULT_WRONG_TYPE    the owner did not wait, and the key is not a lock
 *
 * If the owner waited, its wait is ended even if the key has been overwritten meanwhile. */
enum result cancelWaits(RedisModuleCtx *ctx, RedisModuleString *name,
                        const struct release *gives_up, struct outcome *outcome);

/* As cancelWaits, for an owner that gives up although a grant may already be on its way to it. If
 * the owner did not wait, releases the hold that `gives_up` describes, and hands the lock off. With
 * RESULT_DONE, `count` is 1 if a wait was ended, 2 if the hold was released, or 0 if the owner had
 * no such hold. May also return RESULT_BOTH_MODES, and what cancelWaits returns. */
enum result cancelOrRelease(RedisModuleCtx *ctx, RedisModuleString *name,
                            const struct release *gives_up, struct outcome *outcome);

#endif
