/* Who holds a lock. lockkey.h tells how the key says it; this file does the plain lock itself, and
 * leaves read-write locks to rwholds.c.
 */
#ifndef LOCK_HOLDS_H
#define LOCK_HOLDS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/rules.h"
#include "keys/lockkey.h"
#include "redismodule.h"

/* The end of a lease that never ends: the key has no TTL. */
#define HOLDS_NO_END LEASES_NO_END

/* Opens the lock `name` in the selected database of `ctx`. With KEY_TO_WRITE, holds of a read-write
 * lock whose leases are over are taken away; but while its slot moves to another node the shape is
 * HOLDS_MOVING, and nothing here touches it. Always to be closed with holdsClose, whatever the shape.
 * Returns the shape, which it also keeps. */
enum holdsShape holdsOpen(struct holds *holds, RedisModuleCtx *ctx, RedisModuleString *name,
                          int64_t now_ms, enum keyAccess access);

void holdsClose(struct holds *holds);

/* keynamesSidesAreHere of this lock, asked once. */
bool holdsSidesAreHere(struct holds *holds);

/* Closes the side key only; what asks for a lease opens it again. */
void holdsCloseLeases(struct holds *holds);

/* Whether reads and writes can be held here: not while somebody has put something of another type
 * under the name of the leases. */
bool holdsCanLease(struct holds *holds);

/* Whether there is no lock. What is left of a read-write lock out of which somebody has taken the last
 * owner by hand is none: it is taken away, if the handle may write, and the shape is HOLDS_FREE from
 * then on. */
bool holdsIsFree(struct holds *holds);

/* The holds as `owner` sees them: of HOLDS_MOVING, foreign ones. The shape must not be
 * HOLDS_WRONG_TYPE. */
void holdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view);

/* Gives `owner` one more hold in `mode`, which must fit (rulesDecide said so for this handle), with
 * a lease that ends at now + lease_ms, or when the running one ends if that is later. Returns the
 * owner's count in this mode, or 0 if that would exceed RULES_MAX_HOLDS: then nothing is changed.
 */
int64_t holdsTake(struct holds *holds, RedisModuleString *owner, enum lockMode mode,
                  int64_t lease_ms);

/* Takes one hold of `owner` in `mode` back; the last hold of the last owner deletes the key. The
 * lease of what is left stays as it is. Returns how many holds the owner has left in this mode, or
 * -1 if it had none: then nothing is changed. */
int64_t holdsRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode);

/* Gives `owner` a lease that ends at now + lease_ms, longer or shorter than the running one.
 * Returns the owner's hold count, or 0 if it has none: then nothing is changed. */
int64_t holdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms);

/* Takes all holds of `owner` away, in every mode. Returns how many it had. */
int64_t holdsDrop(struct holds *holds, RedisModuleString *owner);

/* Deletes the key, whoever holds the lock. Returns whether there was one. The shape must not be
 * HOLDS_MOVING. */
bool holdsForce(struct holds *holds);

/* When the next lease here ends, unix ms; HOLDS_NO_END for a free lock or a key without TTL. */
int64_t holdsNextEnd(struct holds *holds);

/* One holder, as holdsEach tells it. */
struct holder {
    RedisModuleString *owner; /* valid during the call */
    enum lockMode mode;
    int64_t count;
};

/* When the lease of this hold ends, unix ms, or HOLDS_NO_END. */
int64_t holdsLeaseEnd(struct holds *holds, const struct holder *holder);

/* Calls `visit` for each owner and mode that holds the lock by a lease that is not over, in no
 * order. Nobody for a free lock, a foreign hash or HOLDS_MOVING. */
void holdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
               void *context);

#endif
