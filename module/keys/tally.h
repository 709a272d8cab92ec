/* How many permits of a semaphore are taken: the sums that are remembered, so that no command has
 * to add up ten thousand holders.
 *
 * The key is the truth. A sum is remembered from the first time that it was counted, changed with
 * every change that we make, and forgotten as soon as anybody else touches the key, with any flush,
 * swap, load or change of role, and when the hash does not have as many fields as it should. Then
 * it is counted anew. At most TALLY_MOST are remembered, those that were used last.
 */
#ifndef LOCK_TALLY_H
#define LOCK_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

#define TALLY_MOST 4096

/* What is remembered of one semaphore. */
struct tallySum {
    size_t fields; /* of its hash */
    int64_t taken;
};

/* Says, once at load, what is called before a sum is remembered: to hear of what others do to
 * keys. */
void tallyConnect(void (*watch)(RedisModuleCtx *ctx));

/* Whether the sum of the key in the selected database is known; if so, stores it. One comparison
 * when none is. */
bool tallyFind(RedisModuleCtx *ctx, RedisModuleString *name, size_t fields, int64_t *taken);

/* The sum of the key in the selected database has just been counted. */
void tallyKeep(RedisModuleCtx *ctx, RedisModuleString *name, const struct tallySum *sum);

/* By how much a change of ours has changed it. */
struct tallyChange {
    int holders; /* that came or went: -1, 0 or 1 */
    int64_t permits;
};

/* We have changed it; now the hash has so many fields. Does nothing when the sum is not known. */
void tallyChange(RedisModuleCtx *ctx, RedisModuleString *name, size_t fields,
                 const struct tallyChange *change);

/* Somebody else may have changed the key; or it is gone. Allowed in every callback. */
void tallyForget(int db, RedisModuleString *name);
void tallyForgetAll(void);

size_t tallyCount(void);

#endif
