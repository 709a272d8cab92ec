/* What the kinds of locks with many holders have in common: a field `mode` in the lock's hash, and
 * a lease of its own for each hold. For rwholds.c and semholds.c, which know who may hold what, and
 * for holds.c.
 *
 * Every function but leasedholdsLeases and leasedholdsBegin needs a lock of such a kind. */
#ifndef LOCK_LEASEDHOLDS_H
#define LOCK_LEASEDHOLDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/holds.h"

/* Where not all expired holds have to be removed, at most this many are removed at once, in some
 * 200 µs. */
#define LEASEDHOLDS_PRUNED_AT_ONCE 64

/* The leases of this lock, which may be free. They are opened on the first call, and belong to
 * `holds`. All access to them goes through this function. */
struct leases *leasedholdsLeases(struct holds *holds);

/* The field of the owner's holds in this mode, to be freed with RedisModule_FreeString. */
RedisModuleString *leasedholdsFieldOf(struct holds *holds, RedisModuleString *owner,
                                      enum lockMode mode);

/* How many fields there are, not counting `mode`: no fewer than holds, and just as many if no other
 * client has written to the key. */
size_t leasedholdsCount(struct holds *holds);

/* Whether the only hold ends with the key: then it is unexpired while the key exists, and no lease
 * has to be read. Not so if another client has removed other holds directly. */
bool leasedholdsEndWithKey(struct holds *holds);

/* Creates the lock, with this count in the field of its first holder, and no lease yet: any leases
 * that exist belong to an earlier lock, and are deleted. */
void leasedholdsBegin(struct holds *holds, enum lockMode mode, RedisModuleString *field,
                      int64_t count);

/* Writes the field `mode`. */
void leasedholdsSetMode(struct holds *holds, enum lockMode mode);

/* To be called before a single lease is written: if the set of leases is stale, every hold gets a
 * lease that ends with the key. */
void leasedholdsRefresh(struct holds *holds);

/* Gives the field a lease that ends at `end_ms`, unix ms. If leases cannot be stored, the key
 * expires with the last one. */
void leasedholdsSetLease(struct holds *holds, RedisModuleString *field, int64_t end_ms);

/* The same for a lease that ends `lease_ms` from now, unless the field already has one (it is not
 * new) that ends later. */
void leasedholdsLengthen(struct holds *holds, RedisModuleString *field, int64_t lease_ms,
                         bool is_new);

/* Implements holdsLengthen. */
int64_t leasedholdsLengthenHold(struct holds *holds, const struct holdsGrant *request);

/* Makes the key expire with the last lease. To be called when a lease that may have been the last
 * has been removed. */
void leasedholdsSettle(struct holds *holds);

/* What is to be removed. */
struct leasedholdsHold {
    RedisModuleString *field;
    enum lockMode mode;
    int64_t count; /* the value of the field, as holdsCount returns it */
};

/* Removes the field, in which no hold is left. If there is no other, the lock is free. */
void leasedholdsRemove(struct holds *holds, const struct leasedholdsHold *hold);

/* Removes the hold in this field, whose lease has expired, and publishes the event `lock.expired`.
 * If the field is no hold, only the lease that another client has written is removed. Returns what
 * was in the field, as holdsCount does; 0 if it is no hold. */
int64_t leasedholdsRemoveDead(struct holds *holds, RedisModuleString *field);

/* Whether the hash has a field other than this owner's whose lease has not expired. The set of
 * leases must not be stale. O(log n); O(n) if another client has written leases without holds, or
 * holds without leases. */
bool leasedholdsOthersLive(struct holds *holds, RedisModuleString *owner);

/* Deletes the lock and its leases; also the rest of a lock, of the kind HOLDS_PLAIN: see
 * holdsIsFree. */
void leasedholdsClear(struct holds *holds);

/* Implement holdsLeaseEnd and holdsEach. */
int64_t leasedholdsEnd(struct holds *holds, RedisModuleString *owner, enum lockMode mode);
void leasedholdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
                     void *context);

#endif
