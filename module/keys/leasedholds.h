/* What the locks with many holders have in common: a field `mode` in the lock's hash, and for each
 * hold a lease of its own. For rwholds.c and semholds.c, which know who may hold what, and holds.c.
 *
 * Every function but leasedholdsLeases and leasedholdsBegin needs a lock of such a shape. */
#ifndef LOCK_LEASEDHOLDS_H
#define LOCK_LEASEDHOLDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/holds.h"

/* So many holds whose leases are over are taken away at once by what need not take all: some 200
 * µs. */
#define LEASEDHOLDS_PRUNED_AT_ONCE 64

/* The leases of this lock, which may be free; opened when they are first asked for. Whatever deals
 * with them gets them here. */
struct leases *leasedholdsLeases(struct holds *holds);

/* The field of the owner's holds in this mode; free it with RedisModule_FreeString. */
RedisModuleString *leasedholdsFieldOf(struct holds *holds, RedisModuleString *owner,
                                      enum lockMode mode);

/* How many fields there are but `mode`: no fewer than there are holds, and just as many where nobody
 * else has written. */
size_t leasedholdsCount(struct holds *holds);

/* Whether the only hold there is ends with the key: then it is not over while there is one, and no
 * lease has to be asked. Not so where somebody has taken others away by hand. */
bool leasedholdsEndWithKey(struct holds *holds);

/* A new lock, with this count in the field of its first holder, and no lease yet: whatever leases
 * are there speak of one that is gone. */
void leasedholdsBegin(struct holds *holds, enum lockMode mode, RedisModuleString *field,
                      int64_t count);

void leasedholdsSetMode(struct holds *holds, enum lockMode mode);

/* Before a lease of its own is written to a stale set: everybody's ends with the key, and that is
 * written down. */
void leasedholdsRefresh(struct holds *holds);

/* Gives the field a lease that ends at `end_ms`. Where none can be written down, the key ends with
 * the last. */
void leasedholdsSetLease(struct holds *holds, RedisModuleString *field, int64_t end_ms);

/* Likewise one that ends `lease_ms` from now, unless the field has one already (it is not new) that
 * ends later. */
void leasedholdsLengthen(struct holds *holds, RedisModuleString *field, int64_t lease_ms,
                         bool is_new);

/* What holdsLengthen promises. */
int64_t leasedholdsLengthenHold(struct holds *holds, const struct holdsRequest *request);

/* Lets the key end with the last lease. To be called when one that may have been the last has
 * gone. */
void leasedholdsSettle(struct holds *holds);

/* What is taken away. */
struct leasedholdsHold {
    RedisModuleString *field;
    enum lockMode mode;
    int64_t count; /* what is in the field, as holdsCount says it */
};

/* The last hold in this field is gone; without any the lock is free. */
void leasedholdsRemove(struct holds *holds, const struct leasedholdsHold *hold);

/* Takes away the hold in this field, whose lease is over, and says so. Where the field is no hold
 * goes only the lease that another client has written down. Returns what was in the field, as
 * holdsCount says it; 0 of what is no hold. */
int64_t leasedholdsRemoveDead(struct holds *holds, RedisModuleString *field);

/* Whether anybody else than this owner stands in the hash, but for those whose leases are over. The
 * set of leases must not be stale. O(log n), where another client has written leases without holds,
 * or holds without leases, O(n). */
bool leasedholdsOthersLive(struct holds *holds, RedisModuleString *owner);

/* Frees the lock. Also what is left of one, of the shape HOLDS_PLAIN: see holdsIsFree. */
void leasedholdsClear(struct holds *holds);

/* What holdsLeaseEnd and holdsEach promise. */
int64_t leasedholdsEnd(struct holds *holds, RedisModuleString *owner, enum lockMode mode);
void leasedholdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
                     void *context);

#endif
