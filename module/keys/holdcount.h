/* The sum of all fields in the hash of a read-write lock or a semaphore. The fields are counted, or
 * the sum is remembered from an earlier count (tally.h). The sum shows whether there is a writer,
 * and whether there is a field that belongs to no owner. Such a field counts as a hold of an owner
 * that cannot be named, until the field is removed. So it can prevent a grant, and never makes one
 * possible.
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

/* Updates the sum after the module has changed a field from `before` to `now`. Both are values as
 * holdsCount returns them. */
void holdcountNote(struct holds *holds, RedisModuleString *field, int64_t before, int64_t now);

#endif
