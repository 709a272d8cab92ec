/* The tokens that this process has given last, by lock: what a key that another client has written,
 * or taken away, cannot change.
 *
 * A table of fixed size, which knows a lock by a hash of its name and its database. Where more locks
 * meet than there is room for, the one with the smallest token is forgotten: so those stay whose
 * tokens are ahead of the clock, for which nothing else speaks.
 */
#ifndef LOCK_GIVEN_H
#define LOCK_GIVEN_H

#include <stdint.h>

#include "redismodule.h"

/* How many locks are known at most. */
#define GIVEN_MOST 4096

struct given {
    uint64_t lock; /* the hash; 0: nothing is here */
    int64_t token;
    uint32_t life; /* of the data, in which it was given */
};

/* The last token of this lock of the selected database, or NULL. */
const struct given *givenFind(RedisModuleCtx *ctx, RedisModuleString *name);

/* The lock has been given this token. */
void givenNote(RedisModuleCtx *ctx, RedisModuleString *name, int64_t token, uint32_t life);

#endif
