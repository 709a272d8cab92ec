/* What stands in the hash of a lock with many holders, as a whole: the sums that are remembered, so
 * that no command has to look at ten thousand fields.
 *
 * The key is the truth. A sum is remembered from the first time that it was counted, changed with
 * every change that we make, and forgotten as soon as anybody else touches the key, with any flush,
 * swap, load or change of role, when the hash does not have as many fields as it should, and when a
 * field's own TTL ends. Then it is counted anew. At most TALLY_MOST are remembered, those that were
 * used last.
 */
#ifndef LOCK_TALLY_H
#define LOCK_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

#define TALLY_MOST 4096

/* What the fields of a hash but `mode` add up to; or by how much a change of ours has changed it. */
struct tallySum {
    int64_t owners;  /* fields of owners: reads, or permits */
    int64_t permits; /* of these owners, of a semaphore; else 0 */
    int64_t writers; /* fields of owners' write holds */
    int64_t foreign; /* fields that no owner has, or that hold no count */
};

/* The hash that a sum is of. */
struct tallyHash {
    RedisModuleCtx *ctx; /* in its selected database */
    RedisModuleString *name;
    size_t fields; /* how many the hash has now, in whatever state */
    bool of_permits;
};

/* Says, once at load, what is called before a sum is remembered: to hear of what others do to
 * keys. */
void tallyConnect(void (*watch)(RedisModuleCtx *ctx));

/* Whether the sum of this hash is known; if so, stores it. One comparison when none is. */
bool tallyFind(const struct tallyHash *hash, int64_t now_ms, struct tallySum *sum);

/* The sum of this hash has just been counted. It holds good until `until_ms`, when a field ends;
 * INT64_MAX: none does. */
void tallyKeep(const struct tallyHash *hash, const struct tallySum *sum, int64_t until_ms);

/* We have changed the hash, and by that its sum by `change`. Does nothing when the sum is not
 * known. */
void tallyChange(const struct tallyHash *hash, const struct tallySum *change);

/* Somebody else may have changed the key; or it is gone. Allowed in every callback. */
void tallyForget(int db, RedisModuleString *name);
void tallyForgetAll(void);

size_t tallyCount(void);

#endif
