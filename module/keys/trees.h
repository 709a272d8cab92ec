/* How the server keeps a key: as a list that it walks, while that is short, or as a tree or a
 * table.
 *
 * A sorted set of up to 128 short members is one list, walked to find a member or a score, which is
 * read from text; a hash of up to 512 fields likewise. Both cost more at a hundred than at ten
 * thousand. One member, or field, longer than the server's limit for lists makes a skip list of the
 * one and a table of the other, for as long as the key lives. Who has raised these limits far above
 * their defaults loses nothing but time.
 *
 * What is added for that is longer than an owner may be, so it is nobody's; it comes and goes here,
 * and is announced to nobody. */
#ifndef LOCK_TREES_H
#define LOCK_TREES_H

#include "redismodule.h"

/* Makes a skip list of this sorted set, open for writing. Does nothing if it is none. */
void treesGrowSet(RedisModuleCtx *ctx, RedisModuleKey *key);

/* Makes a table of this hash, likewise. */
void treesGrowHash(RedisModuleCtx *ctx, RedisModuleKey *key);

#endif
