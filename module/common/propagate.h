/* Propagates the changes of keys to replicas and the AOF (as ordinary commands with absolute times,
 * never as LOCK.*), to clients that WATCH or cache the key, and as keyspace events.
 *
 * Every write of the module is propagated here, directly after the write. All changes of one
 * command or of one drain are sent to replicas and the AOF in one MULTI/EXEC.
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

/* As propagateCount, and the key now expires when the lease ends. */
void propagateHold(RedisModuleCtx *ctx, RedisModuleString *name, const struct propagateHold *hold);

/* The hash `name` now has `mode` in its field `mode`. */
void propagateMode(RedisModuleCtx *ctx, RedisModuleString *name, const char *mode);

/* The hash `name` no longer has `field`. */
void propagateFieldGone(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *field);

/* As propagateFieldGone, for many fields at once. */
void propagateFieldsGone(RedisModuleCtx *ctx, RedisModuleString *name,
                         RedisModuleString *const *fields, size_t count);

/* The key now expires at `lease_end_ms`, unix ms, or never if this is INT64_MAX. */
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

/* The sorted set `name` now has `member` with this score; INT64_MAX stands for +inf. */
void propagateScore(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *member,
                    int64_t score);

/* As propagateScore, with an exact score that need not be an integer. */
void propagateExactScore(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *member,
                         double score);

/* The hash `name` now has `value` in `field`. */
void propagateField(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *field,
                    RedisModuleString *value);

/* The sorted set `name` no longer has `member`. */
void propagateUnscored(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *member);

/* As propagateUnscored, for many members at once. */
void propagateUnscoredMany(RedisModuleCtx *ctx, RedisModuleString *name,
                           RedisModuleString *const *members, size_t count);

struct propagateNumber {
    int64_t number;
    int64_t expire_ms; /* unix ms; INT64_MAX: never */
};

/* The string `name` now contains this number, and expires at `expire_ms`. */
void propagateNumber(RedisModuleCtx *ctx, RedisModuleString *name,
                     const struct propagateNumber *number);

/* The key was deleted. */
void propagateDeleted(RedisModuleCtx *ctx, RedisModuleString *name);

/* Publishes the keyspace event `event` (class `d`, module) for the key. */
void propagateEvent(RedisModuleCtx *ctx, RedisModuleString *name, const char *event);

/* Notifies Redisson's waiters, if lock.redisson-interop is on. To be called when the lock is free
 * and was not granted to a waiter of the module. */
void propagateFreeForRedisson(RedisModuleCtx *ctx, RedisModuleString *name);

/* Requests the replicas to acknowledge everything that they have been sent before this request.
 * Only to be called while the server accepts writes (serverWritableNow), and in a callback in which
 * nothing else is propagated. If the request were in one transaction with a change, the replicas
 * would acknowledge only what precedes the transaction. */
void propagateAskReplicas(RedisModuleCtx *ctx);

/* To be called when the server may have begun to send changes to a replica or an AOF, because of a
 * fork, a new role or a load. The next change queries the server again. */
void propagateListenersMayHaveChanged(void);

#endif
