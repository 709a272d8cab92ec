/* The holds of a semaphore: permits. Called by holds.c; the functions are described in holds.h. All
 * but semholdsTake need the kind HOLDS_SEMAPHORE.
 *
 * Expired permits are not removed whenever the lock is opened, as those of readers are: only when
 * their permits are needed (semholdsMakeRoom), or in each pass (semholdsPrune). So the sum of all
 * permits (tally.h) may include expired ones, and is then only too large: a request that does not
 * fit makes room, and looks again. */
#ifndef LOCK_SEMHOLDS_H
#define LOCK_SEMHOLDS_H

#include "keys/holds.h"

/* Removes expired permits, those of at most LEASEDHOLDS_PRUNED_AT_ONCE holders. That may leave the
 * lock free. */
void semholdsPrune(struct holds *holds);

/* Implements holdsMakeRoom. That may leave the lock free. */
bool semholdsMakeRoom(struct holds *holds, int64_t most);

/* Removes the owner's permits if their lease has expired. */
void semholdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view);

/* The lock may be free. */
int64_t semholdsTake(struct holds *holds, const struct holdsGrant *request);
int64_t semholdsRelease(struct holds *holds, RedisModuleString *owner, int64_t count);
int64_t semholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms);
int64_t semholdsDrop(struct holds *holds, RedisModuleString *owner);

/* Implements holdsIsFree. */
bool semholdsIsFree(struct holds *holds);

/* When the lease of the owner's permits ends, or has ended, unix ms; 0 if it has none. Changes
 * nothing. */
int64_t semholdsEndOf(struct holds *holds, RedisModuleString *owner);

/* When the first lease ends, unix ms. This may be past, for permits that have not been removed
 * yet. */
int64_t semholdsNextEnd(struct holds *holds);

#endif
