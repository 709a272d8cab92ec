/* The TTLs that fields of a hash may have of their own: Redis from 7.4, Valkey from 9.
 *
 * A field whose TTL has passed stays in the hash until the server gets round to it. Until then
 * RedisModule_HashGet and RedisModule_ScanKey pass it by, and RedisModule_ValueLength counts it; and
 * no event says that it has passed. So what is remembered of a hash holds good until the first of
 * them ends. Seen on Redis 8.0 and Valkey 9.1. */
#ifndef LOCK_FIELDTTL_H
#define LOCK_FIELDTTL_H

#include <stdint.h>

#include "redismodule.h"

/* When the first field of this hash that has a TTL of its own ends, or has ended, unix ms; INT64_MAX:
 * none has one. O(1) on Redis from 8.0, else O(n), and counted as HPEXPIRETIME in commandstats, on
 * servers that have it. */
int64_t fieldttlFirstEnd(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleKey *key);

#endif
