/* The holds of a semaphore, which are permits. Called by holds.c; the functions are described in
 * holds.h. All functions except semholdsTake need the kind HOLDS_SEMAPHORE.
 *
 * Unlike expired holds of readers, expired permits are not removed whenever the lock is opened.
 * They are removed when a request needs permits (semholdsMakeRoom), and in each grant pass
 * (semholdsPrune). So the sum of all permits (tally.h) may include expired ones and be too large.
 * If a request does not fit, expired permits are removed, and the request is checked again. */
#ifndef LOCK_SEMHOLDS_H
#define LOCK_SEMHOLDS_H

#include "keys/holds.h"

/* Removes expired permits of at most LEASEDHOLDS_PRUNED_AT_ONCE holders. After that the lock may be
 * free. */
void semholdsPrune(struct holds *holds);

/* Implements holdsMakeRoom. After that the lock may be free. */
bool semholdsMakeRoom(struct holds *holds, int64_t most);

/* Implements holdsSeenBy. Removes the owner's permits first if their lease has expired. */
void semholdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view);

/* The lock may be free. */
int64_t semholdsTake(struct holds *holds, const struct holdsGrant *request);
int64_t semholdsRelease(struct holds *holds, RedisModuleString *owner, int64_t count);
int64_t semholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms);
int64_t semholdsDrop(struct holds *holds, RedisModuleString *owner);

/* Implements holdsIsFree. */
bool semholdsIsFree(struct holds *holds);

/* When the lease of the owner's permits ends, or has ended, unix ms; 0 if the owner has no permits.
 * Changes nothing. */
int64_t semholdsEndOf(struct holds *holds, RedisModuleString *owner);

/* When the first lease ends, unix ms. The time is in the past if there are expired permits that
 * have not been removed yet. */
int64_t semholdsNextEnd(struct holds *holds);

#endif
