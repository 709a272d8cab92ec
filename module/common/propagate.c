/* See propagate.h.
 *
 * Replicating costs about 2,600 instructions a command even without a listener, a fifth of a whole
 * SET. So the module tracks whether there is one. There is none if the AOF is off and there is no
 * replica, no backlog and no cluster; then only the server's counter of changes, which `save`
 * points use, is incremented.
 *
 * That stays true until a server event says otherwise: a replica or an AOF gets what was written
 * before in a snapshot made by a forked child, so each new listener is preceded by a fork, and the
 * fork is an event. (A replica that needs no snapshot needs a backlog, and with a backlog the
 * module always replicates.) In a cluster the module always replicates: slots can be streamed to
 * another node in ways that INFO does not show.
 */
#include "common/propagate.h"

#include <stdbool.h>
#include <stdio.h>

#include "common/config.h"
#include "common/failpoint.h"
#include "server/server.h"

static enum { LISTENERS_UNKNOWN, LISTENERS_NONE, LISTENERS_SOME } listeners = LISTENERS_UNKNOWN;

void propagateListenersMayHaveChanged(void) {
    listeners = LISTENERS_UNKNOWN;
}

/* Whether this field of INFO is 0. A server that does not have the field may have listeners that
 * the module does not know of. */
static bool infoSaysZero(RedisModuleCtx *ctx, const char *section, const char *field) {
    int error = REDISMODULE_OK;
    RedisModuleServerInfoData *info = RedisModule_GetServerInfo(ctx, section);
    long long value = RedisModule_ServerInfoGetFieldSigned(info, field, &error);
    RedisModule_FreeServerInfo(ctx, info);
    return error == REDISMODULE_OK && value == 0;
}

/* Whether there is a listener. Called before each change is propagated, when the key has been
 * changed. */
static bool somebodyListens(RedisModuleCtx *ctx) {
    (void)failpoint(FAILPOINT_EFFECT);
    if (listeners == LISTENERS_UNKNOWN) {
        bool none = !serverIsCluster() && infoSaysZero(ctx, "persistence", "aof_enabled") &&
                    infoSaysZero(ctx, "replication", "connected_slaves") &&
                    infoSaysZero(ctx, "replication", "repl_backlog_active");
        listeners = none ? LISTENERS_NONE : LISTENERS_SOME;
    }
    return listeners == LISTENERS_SOME;
}

/* Counts a change that is not propagated. RedisModule_Replicate would look up a command and build
 * its arguments for nothing: 2,000 instructions. This call passes the running command to the
 * server, which finds that there is no listener, counts and drops it: 60. */
static void countChange(RedisModuleCtx *ctx) {
    RedisModule_ReplicateVerbatim(ctx);
}

void propagateCount(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *field,
                    int64_t count) {
    if (somebodyListens(ctx)) {
        RedisModule_Replicate(ctx, "HSET", "ssl", name, field, (long long)count);
    } else {
        countChange(ctx);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateHold(RedisModuleCtx *ctx, RedisModuleString *name, const struct propagateHold *hold) {
    if (somebodyListens(ctx)) {
        RedisModule_Replicate(ctx, "HSET", "ssl", name, hold->field, (long long)hold->count);
        RedisModule_Replicate(ctx, "PEXPIREAT", "sl", name, (long long)hold->lease_end_ms);
    } else {
        countChange(ctx);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateMode(RedisModuleCtx *ctx, RedisModuleString *name, const char *mode) {
    if (somebodyListens(ctx)) {
        RedisModule_Replicate(ctx, "HSET", "scc", name, "mode", mode);
    } else {
        countChange(ctx);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateFieldGone(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *field) {
    if (somebodyListens(ctx)) {
        RedisModule_Replicate(ctx, "HDEL", "ss", name, field);
    } else {
        countChange(ctx);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateFieldsGone(RedisModuleCtx *ctx, RedisModuleString *name,
                         RedisModuleString *const *fields, size_t count) {
    if (somebodyListens(ctx)) {
        RedisModule_Replicate(ctx, "HDEL", "sv", name, fields, count);
    } else {
        countChange(ctx);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateLease(RedisModuleCtx *ctx, RedisModuleString *name, int64_t lease_end_ms) {
    if (!somebodyListens(ctx)) {
        countChange(ctx);
    } else if (lease_end_ms == INT64_MAX) {
        RedisModule_Replicate(ctx, "PERSIST", "s", name);
    } else {
        RedisModule_Replicate(ctx, "PEXPIREAT", "sl", name, (long long)lease_end_ms);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateToken(RedisModuleCtx *ctx, RedisModuleString *name,
                    const struct propagateToken *token) {
    if (somebodyListens(ctx)) {
        RedisModule_Replicate(ctx, "HSET", "sclcs", name, "token", (long long)token->token, "owner",
                              token->owner);
        RedisModule_Replicate(ctx, "PEXPIREAT", "sl", name, (long long)token->expire_ms);
    } else {
        countChange(ctx);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateScore(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *member,
                    int64_t score) {
    if (!somebodyListens(ctx)) {
        countChange(ctx);
    } else if (score == INT64_MAX) {
        RedisModule_Replicate(ctx, "ZADD", "scs", name, "+inf", member);
    } else {
        RedisModule_Replicate(ctx, "ZADD", "sls", name, (long long)score, member);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateExactScore(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *member,
                         double score) {
    if (somebodyListens(ctx)) {
        char text[32];
        snprintf(text, sizeof(text), "%.17g", score);
        RedisModule_Replicate(ctx, "ZADD", "scs", name, text, member);
    } else {
        countChange(ctx);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateField(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *field,
                    RedisModuleString *value) {
    if (somebodyListens(ctx)) {
        RedisModule_Replicate(ctx, "HSET", "sss", name, field, value);
    } else {
        countChange(ctx);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateUnscored(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *member) {
    if (somebodyListens(ctx)) {
        RedisModule_Replicate(ctx, "ZREM", "ss", name, member);
    } else {
        countChange(ctx);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateUnscoredMany(RedisModuleCtx *ctx, RedisModuleString *name,
                           RedisModuleString *const *members, size_t count) {
    if (somebodyListens(ctx)) {
        RedisModule_Replicate(ctx, "ZREM", "sv", name, members, count);
    } else {
        countChange(ctx);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateNumber(RedisModuleCtx *ctx, RedisModuleString *name,
                     const struct propagateNumber *number) {
    if (!somebodyListens(ctx)) {
        countChange(ctx);
    } else if (number->expire_ms == INT64_MAX) {
        RedisModule_Replicate(ctx, "SET", "sl", name, (long long)number->number);
    } else {
        RedisModule_Replicate(ctx, "SET", "slcl", name, (long long)number->number, "PXAT",
                              (long long)number->expire_ms);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateDeleted(RedisModuleCtx *ctx, RedisModuleString *name) {
    if (somebodyListens(ctx)) {
        RedisModule_Replicate(ctx, "DEL", "s", name);
    } else {
        countChange(ctx);
    }
    RedisModule_SignalModifiedKey(ctx, name);
}

void propagateAskReplicas(RedisModuleCtx *ctx) {
    RedisModule_Replicate(ctx, "REPLCONF", "Acc", "GETACK", "*"); /* A: not to the AOF */
}

void propagateEvent(RedisModuleCtx *ctx, RedisModuleString *name, const char *event) {
    RedisModule_NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_MODULE, event, name);
}

/* Redisson names a lock's channel after the lock, in braces if the name has none. */
static RedisModuleString *redissonChannel(RedisModuleCtx *ctx, RedisModuleString *name) {
    static const char prefix[] = "redisson_lock__channel:";
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    bool has_brace = false;
    for (size_t i = 0; i < length; i++) {
        has_brace = has_brace || bytes[i] == '{';
    }
    RedisModuleString *channel = RedisModule_CreateString(ctx, prefix, sizeof(prefix) - 1);
    if (!has_brace) {
        RedisModule_StringAppendBuffer(ctx, channel, "{", 1);
    }
    RedisModule_StringAppendBuffer(ctx, channel, bytes, length);
    if (!has_brace) {
        RedisModule_StringAppendBuffer(ctx, channel, "}", 1);
    }
    return channel;
}

void propagateFreeForRedisson(RedisModuleCtx *ctx, RedisModuleString *name) {
    if (!configRedissonInterop()) {
        return;
    }
    RedisModuleString *channel = redissonChannel(ctx, name);
    RedisModuleString *unlocked = RedisModule_CreateString(ctx, "0", 1);
    RedisModule_PublishMessage(ctx, channel, unlocked);
    if (serverIsCluster()) {
        RedisModule_PublishMessageShard(ctx, channel, unlocked); /* Redisson uses shard channels */
    }
    if (!serverIsCluster() && somebodyListens(ctx)) {
        /* In a cluster every node has received it. Otherwise PUBLISH reaches replicas, where
         * Redisson may be subscribed, but not the AOF. */
        RedisModule_Replicate(ctx, "PUBLISH", "Ass", channel, unlocked);
    }
    RedisModule_FreeString(ctx, channel);
    RedisModule_FreeString(ctx, unlocked);
}
