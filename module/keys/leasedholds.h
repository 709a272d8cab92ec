/* The common part of read-write locks and semaphores. Both have a field `mode` in the lock's hash,
 * and each hold has a lease of its own. Used by rwholds.c and semholds.c, which implement the
 * differences, and by holds.c.
 *
 * Every function except leasedholdsLeases and leasedholdsBegin needs a lock of such a kind. */
#ifndef LOCK_LEASEDHOLDS_H
#define LOCK_LEASEDHOLDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/holds.h"

/* If not all expired holds must be removed, at most this many are removed in one step, which takes
 * some 200 µs. */
#define LEASEDHOLDS_PRUNED_AT_ONCE 64

/* The leases of this lock, which may be free. They are opened on the first call, and belong to
 * `holds`. All access to them goes through this function. */
struct leases *leasedholdsLeases(struct holds *holds);

/* The field of the owner's holds in this mode, to be freed with RedisModule_FreeString. */
RedisModuleString *leasedholdsFieldOf(struct holds *holds, RedisModuleString *owner,
                                      enum lockMode mode);

/* How many fields the hash has, not counting `mode`. There are at least as many fields as holds,
 * and exactly as many if no other client has written to the key. */
size_t leasedholdsCount(struct holds *holds);

/* Whether the lock has only one hold, whose lease ends when the key expires. If so, the hold is
 * unexpired while the key exists, and no lease has to be read. Returns false if another client has
 * removed other holds directly. */
bool leasedholdsEndWithKey(struct holds *holds);

/* Writes the field `mode`. */
void leasedholdsSetMode(struct holds *holds, enum lockMode mode);

/* To be called before a single lease is written, and before a hold is added to others. If the set
 * of leases is stale (leases.h), gives every hold a lease that ends when the key expires, and
 * returns true. Does nothing if there is one hold and none is added: its lease is the key's TTL. */
bool leasedholdsRefresh(struct holds *holds, bool adds);

/* Gives the field a lease that ends at `end_ms`, unix ms. If leases cannot be stored, makes the key
 * expire when the last lease ends. */
void leasedholdsSetLease(struct holds *holds, RedisModuleString *field, int64_t end_ms);

/* Gives the field a lease that ends `lease_ms` from now, unless the field already has a lease that
 * ends later. If `is_new`, the field has no lease yet. */
void leasedholdsLengthen(struct holds *holds, RedisModuleString *field, int64_t lease_ms,
                         bool is_new);

/* Implements holdsLengthen. */
int64_t leasedholdsLengthenHold(struct holds *holds, const struct holdsGrant *request);

/* Makes the key expire when the last lease ends. To be called after a lease has been removed that
 * may have been the last to end. */
void leasedholdsSettle(struct holds *holds);

/* A hold that is to be removed. */
struct leasedholdsHold {
    RedisModuleString *field;
    enum lockMode mode;
    int64_t count; /* the value of the field, as holdsCount returns it */
};

/* Creates the lock with its first hold, whose lease ends at `end_ms`, unix ms, with the key. Leases
 * that already exist belong to an earlier lock, and are deleted. */
void leasedholdsBegin(struct holds *holds, const struct leasedholdsHold *first, int64_t end_ms);

/* Removes the field, which contains no hold any more. If there is no other field, the lock becomes
 * free. */
void leasedholdsRemove(struct holds *holds, const struct leasedholdsHold *hold);

/* Removes the hold in this field, whose lease has expired, and publishes the event `lock.expired`.
 * If the field is not a hold, removes only the lease, which another client has written. Returns the
 * value of the field as holdsCount does; 0 if the field is not a hold. */
int64_t leasedholdsRemoveDead(struct holds *holds, RedisModuleString *field);

/* Whether the hash has a field other than this owner's whose lease has not expired. The set of
 * leases must not be stale. O(log n); O(n) if another client has written leases without holds, or
 * holds without leases. */
bool leasedholdsOthersLive(struct holds *holds, RedisModuleString *owner);

/* Deletes the lock and its leases. Also deletes the fields that remain of a lock (see holdsIsFree);
 * the kind is HOLDS_PLAIN in this case. */
void leasedholdsClear(struct holds *holds);

/* Implement holdsLeaseEnd and holdsEach. */
int64_t leasedholdsEnd(struct holds *holds, RedisModuleString *owner, enum lockMode mode);
void leasedholdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
                     void *context);

#endif
