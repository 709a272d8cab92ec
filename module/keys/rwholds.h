/* The holds of a read-write lock. Called by holds.c; the functions are described in holds.h. All
 * but rwholdsTake need the kind HOLDS_READ_WRITE. */
#ifndef LOCK_RWHOLDS_H
#define LOCK_RWHOLDS_H

#include "keys/holds.h"

/* If the handle was opened to write, removes expired holds, each of which has its own lease. After
 * that the lock may be free. If there are thousands of expired readers, not all are removed at
 * once, and `has_dead` is set. The expired holds that are left are not counted as holds, neither
 * for their owners nor for others. */
void rwholdsOpen(struct holds *holds);

/* The number in the field of the owner's holds in this mode; negative if it is not a count. */
int64_t rwholdsOwn(struct holds *holds, RedisModuleString *owner, enum lockMode mode);

void rwholdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view);

/* The lock may be free. */
int64_t rwholdsTake(struct holds *holds, const struct holdsGrant *request);
int64_t rwholdsRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode);
int64_t rwholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms);
int64_t rwholdsDrop(struct holds *holds, RedisModuleString *owner);

/* When the last lease of the owner's holds ends, or has ended, unix ms; 0 if the owner has no
 * holds. Changes nothing. */
int64_t rwholdsEndOf(struct holds *holds, RedisModuleString *owner);

#endif
