/* The TTLs that fields of a hash may have of their own: Redis from 7.4, Valkey from 9.
 *
 * A field whose TTL has passed stays in the hash until the server removes it. Until then
 * RedisModule_HashGet and RedisModule_ScanKey skip it, but RedisModule_ValueLength counts it; and
 * no event reports that the TTL has passed. So what is remembered of a hash is valid until the
 * first of these TTLs ends. Seen on Redis 8.0 and Valkey 9.1. */
#ifndef LOCK_FIELDTTL_H
#define LOCK_FIELDTTL_H

#include <stdint.h>

#include "redismodule.h"

/* When the first field of this hash that has a TTL of its own expires, or has expired, unix ms;
 * INT64_MAX: none has one. O(1) on Redis from 8.0; else O(n), and counted as HPEXPIRETIME in
 * commandstats, on servers that have that command. */
int64_t fieldttlFirstEnd(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleKey *key);

#endif
