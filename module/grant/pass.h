/* The grant pass (rule 4 of docs/design.md) grants a lock to those of its waiters that fit now.
 * There is one pass for all causes. No other code may hand a lock off.
 *
 * Works in the selected database of the handle's context.
 */
#ifndef LOCK_PASS_H
#define LOCK_PASS_H

#include <stdint.h>

#include "keys/holds.h"
#include "redismodule.h"
#include "waits/contended.h"

/* To be called when something outside the module may have changed the lock. Runs the pass, brings
 * the fair queue's keys up to date, clears the lock's flags, and sets the timer for the next lease
 * end. `lock` may be freed. */
void passRun(RedisModuleCtx *ctx, struct blockingkey *key, int64_t now_ms);

/* To be called when a command has freed the lock. Hands it off, or announces that it is free. */
void passHandOff(struct holds *holds);

/* Whether passHandOff may have something to do, for any lock. */
bool passIsNeeded(void);

/* To be called when the owner has just acquired the lock without waiting. Grants the other requests
 * of this owner in the queue that fit now. */
void passAfterTake(struct holds *holds, RedisModuleString *owner);

/* What the drain does with a due lock; for contendedConnect. */
extern const struct blockingkeyWork pass_work;

#endif
