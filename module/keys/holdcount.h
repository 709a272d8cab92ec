/* The sum of all fields in the hash of a read-write lock or a semaphore: counted, or remembered
 * (tally.h). It shows what one owner's own fields cannot: whether there is a writer, or a field
 * that belongs to no owner. Such a field counts as held by an owner that cannot be named, until it
 * is removed: it never makes a grant possible.
 *
 * Fields whose leases have expired count until they are removed. All functions need the kind
 * HOLDS_READ_WRITE or HOLDS_SEMAPHORE. */
#ifndef LOCK_HOLDCOUNT_H
#define LOCK_HOLDCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "keys/holds.h"
#include "keys/tally.h"

/* Whether this is the field of a hold in a lock of this kind. */
bool holdcountIsHold(const struct holds *holds, RedisModuleString *field);

/* Stores the sum of all fields. Returns whether they had to be counted, which is O(n). */
bool holdcountGet(struct holds *holds, struct tallySum *sum);

/* Updates the sum after the module has changed a field from `before` to `now`, as holdsCount
 * returns them. */
void holdcountNote(struct holds *holds, RedisModuleString *field, int64_t before, int64_t now);

#endif
