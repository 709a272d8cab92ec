/* The grant pass (rule 4 of docs/design.md): letting in those waiters of a lock that fit now. There
 * is one, for every cause: a second way to hand a lock off is a bug.
 *
 * Works in the selected database of the handle's context.
 */
#ifndef LOCK_PASS_H
#define LOCK_PASS_H

#include <stdint.h>

#include "keys/holds.h"
#include "redismodule.h"
#include "waits/contended.h"

/* Something outside may have changed the lock: runs the pass, brings the fair queue's keys up to
 * date, clears the lock's notes, watches the lease of what is left. `lock` may be gone afterwards.
 */
void passRun(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms);

/* The lock has just been freed by a command: hands it off, or says that it is free. */
void passHandOff(struct holds *holds);

/* The owner has just taken the lock past the queue: lets in what else it waits for there. */
void passAfterTake(struct holds *holds, RedisModuleString *owner);

/* What the drain does with a lock that is due; for contendedConnect. */
extern const struct waitedkeyWork pass_work;

#endif
