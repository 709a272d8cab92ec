/* Propagates the changes of keys: to replicas and the AOF (as plain commands with absolute times,
 * never as LOCK.*), to clients that WATCH or cache the key, and as keyspace events.
 *
 * Every write of the module is propagated here, directly after it was made. All changes of one
 * command or of one drain reach replicas and the AOF in one MULTI/EXEC.
 *
 * `name` is always the full name of the key, in the selected database of `ctx`.
 */
#ifndef LOCK_PROPAGATE_H
#define LOCK_PROPAGATE_H

#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

/* The hash `name` now has `count` in `field`. */
void propagateCount(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *field,
                    int64_t count);

struct propagateHold {
    RedisModuleString *field;
    int64_t count;
    int64_t lease_end_ms; /* unix ms */
};

/* The same, and the key expires when the lease ends. */
void propagateHold(RedisModuleCtx *ctx, RedisModuleString *name, const struct propagateHold *hold);

/* The hash `name` now has `mode` in its field `mode`. */
void propagateMode(RedisModuleCtx *ctx, RedisModuleString *name, const char *mode);

/* The hash `name` no longer has `field`. */
void propagateFieldGone(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *field);

/* The same for many at once. */
void propagateFieldsGone(RedisModuleCtx *ctx, RedisModuleString *name,
                         RedisModuleString *const *fields, size_t count);

/* The key now expires at `lease_end_ms`, unix ms; INT64_MAX: never. */
void propagateLease(RedisModuleCtx *ctx, RedisModuleString *name, int64_t lease_end_ms);

struct propagateToken {
    int64_t token;
    RedisModuleString *owner;
    int64_t expire_ms; /* unix ms */
};

/* The hash `name` now has these values in its fields `token` and `owner`, and expires at
 * `expire_ms`. */
void propagateToken(RedisModuleCtx *ctx, RedisModuleString *name,
                    const struct propagateToken *token);

/* The sorted set `name` now has `member` at `score`; INT64_MAX stands for +inf. */
void propagateScore(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *member,
                    int64_t score);

/* The same, with the exact score. */
void propagateExactScore(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *member,
                         double score);

/* The hash `name` now has `value` in `field`. */
void propagateField(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *field,
                    RedisModuleString *value);

/* The sorted set `name` no longer has `member`. */
void propagateUnscored(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *member);

/* The same for many at once. */
void propagateUnscoredMany(RedisModuleCtx *ctx, RedisModuleString *name,
                           RedisModuleString *const *members, size_t count);

struct propagateNumber {
    int64_t number;
    int64_t expire_ms; /* unix ms; INT64_MAX: never */
};

/* The string `name` now is this number, and expires at `expire_ms`. */
void propagateNumber(RedisModuleCtx *ctx, RedisModuleString *name,
                     const struct propagateNumber *number);

/* The key was deleted. */
void propagateDeleted(RedisModuleCtx *ctx, RedisModuleString *name);

/* Publishes the keyspace event `event` (class `d`, module) for the key. */
void propagateEvent(RedisModuleCtx *ctx, RedisModuleString *name, const char *event);

/* The lock is free and was not granted to a waiter of the module: notifies Redisson's waiters, if
 * lock.redisson-interop is on. */
void propagateFreeForRedisson(RedisModuleCtx *ctx, RedisModuleString *name);

/* Requests that the replicas acknowledge all that they have been sent before this. Only while the
 * server may be written to (serverWritableNow), and in a callback in which nothing else is
 * propagated: in one transaction with a change they would acknowledge what comes before that. */
void propagateAskReplicas(RedisModuleCtx *ctx);

/* To be called when something has happened that can give the server a listener (a fork for a
 * replica or an AOF, a new role, a load): the next change queries the server again. */
void propagateListenersMayHaveChanged(void);

#endif
