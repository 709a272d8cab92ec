/* Changes the encoding of a sorted set or a hash to the one that the server uses for large keys.
 *
 * The server encodes a sorted set of up to 128 short members, and a hash of up to 512 short fields,
 * as a listpack. It walks a listpack to find a member, a score or a field, and parses scores from
 * text. An access to a listpack of a hundred elements costs more than one to a skiplist or a
 * hashtable of ten thousand. When a member or field is longer than the server's limit for
 * listpacks, the server encodes the sorted set as a skiplist, or the hash as a hashtable, for as
 * long as the key exists. If this limit is configured far above its default, these functions only
 * cost time.
 *
 * The member or field that is added for this is longer than an owner may be, so it belongs to no
 * owner. It is added and removed here, and not propagated. */
#ifndef LOCK_ENCODING_H
#define LOCK_ENCODING_H

#include "redismodule.h"

/* Makes the server encode this sorted set, opened to write, as a skiplist. Does nothing if the key
 * is not a sorted set. */
void encodingGrowSet(RedisModuleCtx *ctx, RedisModuleKey *key);

/* Makes the server encode this hash, opened to write, as a hashtable. Does nothing if the key is
 * not a hash. */
void encodingGrowHash(RedisModuleCtx *ctx, RedisModuleKey *key);

#endif
