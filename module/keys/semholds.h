/* The holds of a semaphore: permits. Called by holds.c, which says what each function means; all
 * but semholdsTake need the shape HOLDS_SEMAPHORE.
 *
 * What is over is not taken away whenever the lock is opened, as readers are: only when its permits
 * are needed (semholdsMakeRoom), or in each pass (semholdsPrune). So the sum of all permits
 * (tally.h) may count some that are over, and then is only too large: who does not fit makes room,
 * and looks again. */
#ifndef LOCK_SEMHOLDS_H
#define LOCK_SEMHOLDS_H

#include "keys/holds.h"

/* Takes away what is over, of very many some. That may leave the lock free. */
void semholdsPrune(struct holds *holds);

/* What holdsMakeRoom promises. That may leave the lock free. */
bool semholdsMakeRoom(struct holds *holds, int64_t most);

/* Takes the owner's permits away if their lease is over. */
void semholdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view);

/* The lock may be free. */
int64_t semholdsTake(struct holds *holds, const struct holdsRequest *request);
int64_t semholdsRelease(struct holds *holds, RedisModuleString *owner, int64_t count);
int64_t semholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms);
int64_t semholdsDrop(struct holds *holds, RedisModuleString *owner);

/* What holdsIsFree promises. */
bool semholdsIsFree(struct holds *holds);

/* When the lease of the owner's permits ends, or has ended; 0 without any. Changes nothing. */
int64_t semholdsEndOf(struct holds *holds, RedisModuleString *owner);

/* When the first lease ends. May be past, of what has not been taken away yet. */
int64_t semholdsNextEnd(struct holds *holds);

#endif
