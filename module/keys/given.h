/* The tokens that this process has issued last, by lock: another client that writes or deletes the
 * key does not change them.
 *
 * A table of fixed size, which identifies a lock by a hash of its name and its database. If more
 * locks share a place than there is room for, the one with the smallest token is forgotten: so the
 * locks are kept whose tokens are ahead of the clock, which nothing else protects.
 */
#ifndef LOCK_GIVEN_H
#define LOCK_GIVEN_H

#include <stdint.h>

#include "redismodule.h"

/* How many locks the table has room for. */
#define GIVEN_MOST 4096

struct given {
    uint64_t lock; /* the hash; 0: a free place */
    int64_t token;
    uint32_t life; /* the life of the data set in which it was issued: fence.h */
};

/* The last token issued for this lock of the selected database, or NULL. */
const struct given *givenFind(RedisModuleCtx *ctx, RedisModuleString *name);

/* Records that this token was issued for the lock. */
void givenNote(RedisModuleCtx *ctx, RedisModuleString *name, int64_t token, uint32_t life);

#endif
