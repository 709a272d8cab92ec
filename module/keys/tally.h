/* The sums of the fields in the hash of a lock with many holders. They are remembered so that no
 * command has to read ten thousand fields.
 *
 * The key is the truth. A sum is remembered from the first time that it was counted, and changed
 * with every change that the module makes. It is forgotten as soon as another client changes the
 * key, at any flush, swap, load or change of role, if the hash does not have as many fields as it
 * should, and when a field's own TTL ends. Then it is counted again. At most TALLY_MOST sums are
 * remembered, those that were used last.
 */
#ifndef LOCK_TALLY_H
#define LOCK_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

#define TALLY_MOST 4096

/* The sum of the fields of a hash, without `mode`; or by how much a change by the module has
 * changed it. */
struct tallySum {
    int64_t owners;  /* fields of owners: reads, or permits */
    int64_t permits; /* of these owners, for a semaphore; else 0 */
    int64_t writers; /* fields of owners' write holds */
    int64_t foreign; /* fields that belong to no owner, or have no count */
};

/* The hash of a sum. */
struct tallyHash {
    RedisModuleCtx *ctx; /* the hash is in the selected database */
    RedisModuleString *name;
    size_t fields; /* how many fields the hash has now, in whatever state */
    bool of_permits;
};

/* To be called once, at load. `watch` is called before a sum is remembered: it subscribes to the
 * events about keys that other clients change. */
void tallyConnect(void (*watch)(RedisModuleCtx *ctx));

/* Whether the sum of this hash is known; if so, stores it. A single comparison if no sum is
 * known. */
bool tallyFind(const struct tallyHash *hash, int64_t now_ms, struct tallySum *sum);

/* Remembers the sum of this hash, which has just been counted. It is valid until `until_ms`, unix
 * ms, when a field expires; INT64_MAX: none does. */
void tallyKeep(const struct tallyHash *hash, const struct tallySum *sum, int64_t until_ms);

/* The module has changed the hash, and with it its sum by `change`. Does nothing if the sum is not
 * known. */
void tallyChange(const struct tallyHash *hash, const struct tallySum *change);

/* Forgets the sum of a key that another client may have changed, or that is gone; or all sums.
 * Allowed in every callback. */
void tallyForget(int db, RedisModuleString *name);
void tallyForgetAll(void);

/* How many sums are remembered. */
size_t tallyCount(void);

#endif
