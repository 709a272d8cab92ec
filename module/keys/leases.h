/* The leases of a read-write lock or a semaphore. Each owner has one lease for each mode.
 *
 *   lock:lease:{key}    sorted set: `owner` (its reads, or permits) and `owner:write` -> the end of
 *                       that lease, unix ms; +inf for a lock without a TTL
 *
 * The lock's key expires when the last lease ends. If the last lease in the set does not end when
 * the key expires, the set is *stale*. Either it belongs to an earlier lock that was removed by DEL
 * or RENAME, or another client has changed the TTL of the key. (But if both keys have been moved by
 * MIGRATE, they end a little later than the last lease, and the set is not stale.) While the set is
 * stale, every lease ends when the key expires. If a score is not a time (0, negative, -inf), that
 * lease, too, ends when the key expires.
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
    RedisModuleString *name; /* NULL if the leases are not open */
    RedisModuleKey *key;
    /* The key is in use (see keynamesSideIsInUse). If so, the set is neither read nor written. */
    bool in_use;
    int64_t key_end_ms; /* when the lock's key expires, unix ms */
    enum { LEASES_UNKNOWN, LEASES_FRESH, LEASES_STALE } freshness; /* determined when needed */
};

/* Whether a lease that ends at `end_ms` has expired. A lease includes its last millisecond, as the
 * TTL of a key does. So a hold and its key end at the same time. And even if the lease began in the
 * middle of a millisecond, no other owner is granted the lock before the whole lease has passed. */
static inline bool leaseExpired(int64_t end_ms, int64_t now_ms) {
    return end_ms < now_ms;
}

/* The lock whose leases are opened. */
struct leasesLock {
    RedisModuleCtx *ctx;
    RedisModuleString *name;
    int64_t key_end_ms; /* when the lock's key expires, unix ms */
};

/* Opens the leases of this lock. Always to be closed with leasesClose. */
void leasesOpen(struct leases *leases, const struct leasesLock *lock, enum keyAccess access);

/* Closes the leases; does nothing if they are not open. */
void leasesClose(struct leases *leases);

/* Whether the set is stale (see above). */
bool leasesAreStale(struct leases *leases);

/* Whether another client has written a key of another type under the name of the set. If so, the
 * module does not write to that key, and all leases end when the lock's key expires. */
bool leasesIsWrongType(const struct leases *leases);

/* How many leases are stored. */
size_t leasesLength(const struct leases *leases);

/* The end that is stored for a lease that ends at `end_ms`. It may differ from `end_ms`, because a
 * score is a double, which is exact only for some 285,000 years. The lock's key must expire at
 * exactly the time that is stored, or the set would be considered stale. */
int64_t leasesKeptEnd(int64_t end_ms);

/* When the lease of this field ends, unix ms; LEASES_NO_END if it never ends. */
int64_t leasesEndOf(struct leases *leases, RedisModuleString *field);

/* Store and remove the lease of a field. */
void leasesSet(struct leases *leases, RedisModuleString *field, int64_t end_ms);
void leasesRemove(struct leases *leases, RedisModuleString *field);

/* Makes the server encode the set as a skiplist, whatever its length (see encoding.h). */
void leasesGrowTree(struct leases *leases);

/* Deletes the key. */
void leasesClear(struct leases *leases);

/* When the first or the last lease ends, unix ms; `key_end_ms` if the set is empty or stale. */
int64_t leasesFirstEnd(struct leases *leases);
int64_t leasesLastEnd(struct leases *leases);

/* The field whose lease ends last, as a new string. NULL if that lease has expired, or if the set
 * is empty or stale. */
RedisModuleString *leasesLastField(struct leases *leases, int64_t now_ms);

/* Of the fields other than `field`, the one whose lease ends last, as a new string. NULL if that
 * lease has expired, or if there is no other field. The set must not be stale. O(log n). */
RedisModuleString *leasesOtherThatLives(struct leases *leases, RedisModuleString *field,
                                        int64_t now_ms);

/* The field whose lease ends first, as a new string, if that lease has expired; otherwise NULL.
 * First removes members whose scores are not times, a limited number of them in each call. */
RedisModuleString *leasesFirstExpired(struct leases *leases, int64_t now_ms);

/* Makes the set expire together with the lock's key, which now expires at `key_end_ms`, unix ms. */
void leasesSetKeyEnd(struct leases *leases, int64_t key_end_ms);

#endif
