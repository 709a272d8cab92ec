/* The last token that this process has issued for each lock, in memory. If another client writes or
 * deletes the lock's token key, the token here does not change.
 *
 * The table has a fixed size, and identifies a lock by a hash of its name and its database. The
 * hash selects a set of a few places. If all of them are used, the lock with the smallest token is
 * forgotten. So locks whose tokens are ahead of the clock are forgotten last, because only the
 * table ensures that their next token is larger if another client has deleted the key.
 */
#ifndef LOCK_GIVEN_H
#define LOCK_GIVEN_H

#include <stdint.h>

#include "redismodule.h"

/* How many locks the table can contain. */
#define GIVEN_MOST 4096

struct given {
    uint64_t lock; /* the hash; 0 if the place is free */
    int64_t token;
    uint32_t life; /* the life of the data set in which the token was issued (fence.h) */
};

/* The last token issued for this lock of the selected database, or NULL if none is in the table. */
const struct given *givenFind(RedisModuleCtx *ctx, RedisModuleString *name);

/* Records that this token was issued for the lock. */
void givenNote(RedisModuleCtx *ctx, RedisModuleString *name, int64_t token, uint32_t life);

#endif
