/* The TTLs that fields of a hash may have of their own: Redis from 7.4, Valkey from 9.
 *
 * A field whose TTL has ended stays in the hash until the server removes it. Until then
 * RedisModule_HashGet and RedisModule_ScanKey skip the field, but RedisModule_ValueLength counts
 * it. No event reports that the TTL has ended. So a sum that is remembered for a hash is valid
 * until the first of these TTLs ends. This was observed on Redis 8.0 and Valkey 9.1. */
#ifndef LOCK_FIELDTTL_H
#define LOCK_FIELDTTL_H

#include <stdint.h>

#include "redismodule.h"

/* When the first field of this hash expires, or has expired, by a TTL of its own, unix ms;
 * INT64_MAX if no field has a TTL. O(1) on Redis from 8.0. On other servers that have HPEXPIRETIME
 * it is O(n), and is counted as HPEXPIRETIME in commandstats. */
int64_t fieldttlFirstEnd(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleKey *key);

#endif
