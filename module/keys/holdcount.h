/* Who stands in the hash of a read-write lock or a semaphore, all together: counted, or remembered
 * (tally.h). It says what one owner's own fields cannot: whether there is a writer, or a field that
 * is nobody's. What is nobody's never lets anybody in: it counts as held by an owner that we cannot
 * name, until it goes.
 *
 * Fields whose leases are over count until they are taken away. All need the shape HOLDS_READ_WRITE
 * or HOLDS_SEMAPHORE. */
#ifndef LOCK_HOLDCOUNT_H
#define LOCK_HOLDCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "keys/holds.h"
#include "keys/tally.h"

/* Whether this is the field of a hold in a lock of this shape. */
bool holdcountIsHold(const struct holds *holds, RedisModuleString *field);

/* Stores the sum of all fields. Returns whether they had to be counted: O(n). */
bool holdcountGet(struct holds *holds, struct tallySum *sum);

/* We have changed what is in a field: from `before` to `now`, as holdsCount says it. */
void holdcountNote(struct holds *holds, RedisModuleString *field, int64_t before, int64_t now);

#endif
