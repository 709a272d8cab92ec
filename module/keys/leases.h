/* The leases of a read-write lock or a semaphore: one for each hold.
 *
 *   lock:lease:{key}    sorted set: `owner` (its reads, or permits) and `owner:write` -> the end of
 *                       that lease, unix ms; +inf for a lock without a TTL
 *
 * The lock's key expires when the last of them ends. That also shows whether the set belongs to
 * this lock, and not to one that was removed by DEL or RENAME, or whose TTL another client has
 * changed: if its last end is not the key's, it is *stale*, and every lease ends with the key. A
 * score that is no time (0, less, -inf) is no end either: such a lease, too, ends with the key.
 *
 * Only this file reads and writes this key. Each write is propagated (propagate.h).
 */
#ifndef LOCK_LEASES_H
#define LOCK_LEASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/keynames.h"
#include "redismodule.h"

/* The end of a lease that never ends. */
#define LEASES_NO_END INT64_MAX

struct leases {
    RedisModuleCtx *ctx;
    RedisModuleString *name; /* NULL if not open */
    RedisModuleKey *key;
    /* keynamesSideIsInUse: then nothing is read from the set, or written to it. */
    bool in_use;
    int64_t key_end_ms; /* when the lock's key expires, unix ms */
    enum { LEASES_UNKNOWN, LEASES_FRESH, LEASES_STALE } freshness; /* determined when needed */
};

/* Whether a lease that ends at `end_ms` has expired. It lasts through its last millisecond, as a
 * key of the server does: so a hold and its key end together, and no other owner is granted the
 * lock before the whole lease has passed, even if it began in the middle of a millisecond. */
static inline bool leaseExpired(int64_t end_ms, int64_t now_ms) {
    return end_ms < now_ms;
}

/* The lock whose leases are opened. */
struct leasesLock {
    RedisModuleCtx *ctx;
    RedisModuleString *name;
    int64_t key_end_ms; /* when its key expires, unix ms */
};

/* Opens the leases of this lock. Always to be closed with leasesClose. */
void leasesOpen(struct leases *leases, const struct leasesLock *lock, enum keyAccess access);

/* Closes the leases; does nothing if they are not open. */
void leasesClose(struct leases *leases);

/* Whether the set is stale: it does not belong to this lock. */
bool leasesAreStale(struct leases *leases);

/* Whether another client has written a key of another type under the name. Then nothing is ever
 * written to it, and all leases end with the key. */
bool leasesIsWrongType(const struct leases *leases);

/* How many leases are stored. */
size_t leasesLength(const struct leases *leases);

/* The end that is stored for a lease that ends at `end_ms`: a score is a double, which is exact for
 * some 285,000 years. The key must expire at exactly the same time, or the set would look stale. */
int64_t leasesKeptEnd(int64_t end_ms);

/* When the lease of this field ends, unix ms; LEASES_NO_END: never. */
int64_t leasesEndOf(struct leases *leases, RedisModuleString *field);

/* Store and remove the lease of a field. */
void leasesSet(struct leases *leases, RedisModuleString *field, int64_t end_ms);
void leasesRemove(struct leases *leases, RedisModuleString *field);

/* Makes the server encode the set as a skiplist, whatever its length: see encoding.h. */
void leasesGrowTree(struct leases *leases);

/* Deletes the key. */
void leasesClear(struct leases *leases);

/* The end of the lease that ends first, or last, unix ms; `key_end_ms` if the set is empty or
 * stale. */
int64_t leasesFirstEnd(struct leases *leases);
int64_t leasesLastEnd(struct leases *leases);

/* The field whose lease ends last, as a new string, if that lease is unexpired; else, or if the set
 * is empty or stale, NULL. */
RedisModuleString *leasesLastField(struct leases *leases, int64_t now_ms);

/* The field of an unexpired lease other than this field's, of those the one that ends last, as a
 * new string; or NULL. The set must not be stale. O(log n). */
RedisModuleString *leasesOtherThatLives(struct leases *leases, RedisModuleString *field,
                                        int64_t now_ms);

/* The field whose lease ends first, as a new string, if that has expired; else NULL. Scores that
 * are no time are removed first, a limited number at a time. */
RedisModuleString *leasesFirstExpired(struct leases *leases, int64_t now_ms);

/* Makes the key expire with the lock's, which now expires at `key_end_ms`, unix ms. */
void leasesSetKeyEnd(struct leases *leases, int64_t key_end_ms);

#endif
