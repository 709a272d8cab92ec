/* The sums of the fields in the hashes of locks with many holders. They are remembered, so that a
 * command does not have to read ten thousand fields.
 *
 * A sum is remembered when it has been counted, and is updated with every change that the module
 * makes to the hash. It is forgotten when another client changes the key, at any flush, swap, load
 * or change of role, when the number of fields of the hash is not the expected one, and when a
 * field's own TTL ends. After that the fields are counted again when the sum is needed. At most
 * TALLY_MOST sums are remembered; the one that has not been used for the longest time is forgotten
 * first.
 */
#ifndef LOCK_TALLY_H
#define LOCK_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

#define TALLY_MOST 4096

/* The sum of the fields of a hash, without `mode`; or the difference that a change by the module
 * has made to the sum. */
struct tallySum {
    int64_t owners;  /* fields with the reads or the permits of an owner */
    int64_t permits; /* the permits of these owners, for a semaphore; otherwise 0 */
    int64_t writers; /* fields with the write holds of an owner */
    int64_t foreign; /* fields that belong to no owner, or contain no count */
};

/* The hash whose fields a sum counts. */
struct tallyHash {
    RedisModuleCtx *ctx; /* the hash is in the selected database */
    RedisModuleString *name;
    size_t fields; /* how many fields the hash has now, including expired ones */
    bool of_permits;
};

/* To be called once, at load. `watch` is called before a sum is remembered, to subscribe to the
 * events of keys that other clients change. */
void tallyConnect(void (*watch)(RedisModuleCtx *ctx));

/* Whether the sum of this hash is remembered. If so, stores it in `sum`. Costs a single comparison
 * if no sum is remembered. */
bool tallyFind(const struct tallyHash *hash, int64_t now_ms, struct tallySum *sum);

/* Remembers the sum of this hash, which has just been counted. The sum is valid until `until_ms`,
 * unix ms, when a field expires; INT64_MAX if no field expires. */
void tallyKeep(const struct tallyHash *hash, const struct tallySum *sum, int64_t until_ms);

/* Adds `change` to the sum of this hash, which the module has changed. Does nothing if the sum is
 * not remembered. */
void tallyChange(const struct tallyHash *hash, const struct tallySum *change);

/* Forget the sum of a key that another client may have changed or that no longer exists, or all
 * sums. Allowed in every callback. */
void tallyForgetSum(int db, RedisModuleString *name);
extern size_t tally_count; /* only for tallyForget */
static inline void tallyForget(int db, RedisModuleString *name) {
    if (tally_count > 0) {
        tallyForgetSum(db, name);
    }
}
void tallyForgetAll(void);

/* How many sums are remembered. */
size_t tallyCount(void);

#endif
