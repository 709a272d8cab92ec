/* The leases of a read-write lock or a semaphore: each hold's own.
 *
 *   lock:lease:{key}    sorted set: `owner` (its reads, or permits) and `owner:write` -> the end of
 *                       that lease, unix ms; +inf for a lock without a TTL
 *
 * The lock's key expires when the last of them ends. That is also how we know that the set speaks
 * of this lock, and not of one that went by DEL or RENAME, or whose TTL somebody has changed by
 * hand: if its last end is not the key's, it is *stale*, and every lease ends with the key. A score
 * that is no time (0, less, -inf) is no end either: such a lease, too, ends with the key.
 *
 * The only file that reads and writes this key. Each write announces itself (effects.h).
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
    RedisModuleString *name; /* NULL: not open */
    RedisModuleKey *key;
    bool in_use; /* keynamesSideIsInUse: nothing here is asked of the set, or written to it */
    int64_t key_end_ms;                                            /* when the lock's key expires */
    enum { LEASES_UNKNOWN, LEASES_FRESH, LEASES_STALE } freshness; /* found out when it matters */
};

/* Whether a lease that ends at `end_ms` is over. It lives through its last millisecond, as the server
 * keeps a key through its own: so a hold and its key end together, and nobody else is let in before
 * the whole lease has passed, though it began at some moment within a millisecond. */
static inline bool leasesIsOver(int64_t end_ms, int64_t now_ms) {
    return end_ms < now_ms;
}

/* The lock whose leases are opened. */
struct leasesLock {
    RedisModuleCtx *ctx;
    RedisModuleString *name;
    int64_t key_end_ms; /* when its key expires */
};

void leasesOpen(struct leases *leases, const struct leasesLock *lock, enum keyAccess access);

/* Does nothing when they are not open. */
void leasesClose(struct leases *leases);

/* Whether the set does not speak of this lock. */
bool leasesAreStale(struct leases *leases);

/* Whether somebody has put something of another type under the name. Then nothing is ever written
 * to it, and all leases end with the key. */
bool leasesIsWrongType(const struct leases *leases);

/* How many leases are written down. */
size_t leasesLength(const struct leases *leases);

/* The end that is kept for a lease that ends at `end_ms`: a score is a double, which is exact for
 * some 285,000 years. The key must expire at the very same, or the set would look stale. */
int64_t leasesKeptEnd(int64_t end_ms);

/* When the lease of this field ends. */
int64_t leasesEndOf(struct leases *leases, RedisModuleString *field);

void leasesSet(struct leases *leases, RedisModuleString *field, int64_t end_ms);
void leasesRemove(struct leases *leases, RedisModuleString *field);

/* Makes the server keep the set as a skip list, whatever its length: see trees.h. */
void leasesGrowTree(struct leases *leases);

/* Deletes the key. */
void leasesClear(struct leases *leases);

/* The end of the lease that ends first, or last; `key_end_ms` where the set does not know. */
int64_t leasesFirstEnd(struct leases *leases);
int64_t leasesLastEnd(struct leases *leases);

/* The field whose lease ends last, as a new string, if that is not over; else, or where the set does
 * not know, NULL. */
RedisModuleString *leasesLastField(struct leases *leases, int64_t now_ms);

/* The field of another lease than this one's that lives at `now_ms`, as a new string: that which ends
 * last; or NULL. The set must not be stale. O(log n). */
RedisModuleString *leasesOtherThatLives(struct leases *leases, RedisModuleString *field,
                                        int64_t now_ms);

/* The field whose lease ends first, as a new string, if that is over; else NULL. Scores that are no
 * time are taken away first, some at a time. */
RedisModuleString *leasesFirstOver(struct leases *leases, int64_t now_ms);

/* Lets the key expire with the lock's, which now does at `key_end_ms`. */
void leasesSetKeyEnd(struct leases *leases, int64_t key_end_ms);

#endif
