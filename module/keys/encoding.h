/* The encoding of a key: a list that the server walks, while it is short, or else a skip list or a
 * hash table.
 *
 * A sorted set of up to 128 short members is a listpack, which is walked to find a member or a
 * score, and scores are parsed from text; so is a hash of up to 512 fields. Both cost more with a
 * hundred elements than a skiplist or a hashtable does with ten thousand. One member, or field,
 * longer than the server's limit for listpacks makes a skiplist of the sorted set and a hashtable
 * of the hash, for as long as the key exists. If these limits are configured far above their
 * defaults, this only costs time.
 *
 * The member or field that is added for that is longer than an owner may be, so it belongs to no
 * owner. It is added and removed here, and not propagated. */
#ifndef LOCK_ENCODING_H
#define LOCK_ENCODING_H

#include "redismodule.h"

/* Makes the server encode this sorted set, opened to write, as a skiplist. Does nothing if it is
 * none. */
void encodingGrowSet(RedisModuleCtx *ctx, RedisModuleKey *key);

/* Makes the server encode this hash, opened to write, as a hashtable. Does nothing if it is
 * none. */
void encodingGrowHash(RedisModuleCtx *ctx, RedisModuleKey *key);

#endif
