/* The holds of a read-write lock. Called by holds.c, which says what each function means; all but
 * rwholdsTake need the shape HOLDS_READ_WRITE. */
#ifndef LOCK_RWHOLDS_H
#define LOCK_RWHOLDS_H

#include "keys/holds.h"

/* If the handle may write, takes holds away whose leases are over: each ends by itself. That may
 * leave the lock free. Of thousands of readers not all at once: `has_dead` then tells that some are
 * left, and they count for nobody, here as little as in their own eyes. */
void rwholdsOpen(struct holds *holds);

/* How many holds the owner has in this mode, as its field says; below 0: that is no count. */
int64_t rwholdsOwn(struct holds *holds, RedisModuleString *owner, enum lockMode mode);

void rwholdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view);

/* The lock may be free. */
int64_t rwholdsTake(struct holds *holds, const struct holdsRequest *request);
int64_t rwholdsRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode);
int64_t rwholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms);
int64_t rwholdsDrop(struct holds *holds, RedisModuleString *owner);

/* When the last lease of the owner's holds ends, or has ended; 0 without any. Changes nothing. */
int64_t rwholdsEndOf(struct holds *holds, RedisModuleString *owner);

#endif
