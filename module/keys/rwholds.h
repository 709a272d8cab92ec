/* The holds of a read-write lock. Called by holds.c; the functions are described in holds.h. All
 * but rwholdsTake need the kind HOLDS_READ_WRITE. */
#ifndef LOCK_RWHOLDS_H
#define LOCK_RWHOLDS_H

#include "keys/holds.h"

/* If the handle may write, removes expired holds: each hold has its own lease. That may leave the
 * lock free. Of thousands of expired readers not all are removed at once: `has_dead` then says that
 * some are left. They count as holds nowhere, neither for others nor for their own owners. */
void rwholdsOpen(struct holds *holds);

/* How many holds the owner has in this mode, as its field says; negative if that is no count. */
int64_t rwholdsOwn(struct holds *holds, RedisModuleString *owner, enum lockMode mode);

void rwholdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view);

/* The lock may be free. */
int64_t rwholdsTake(struct holds *holds, const struct holdsGrant *request);
int64_t rwholdsRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode);
int64_t rwholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms);
int64_t rwholdsDrop(struct holds *holds, RedisModuleString *owner);

/* When the last lease of the owner's holds ends, or has ended, unix ms; 0 if it has none. Changes
 * nothing. */
int64_t rwholdsEndOf(struct holds *holds, RedisModuleString *owner);

#endif
