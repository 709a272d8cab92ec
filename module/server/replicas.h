/* How far this master's replicas have come.
 *
 * No server tells a module that a replica has acknowledged. It says so when asked (INFO replication),
 * some 20 µs each time, so only who waits for it looks. A replica acknowledges once a second by
 * itself, and at once when the stream asks it to. WAIT is no way: Redis 7.0
 * crashes when a module calls it.
 */
#ifndef LOCK_REPLICAS_H
#define LOCK_REPLICAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

/* So many of them are told apart. */
#define REPLICAS_MOST 64

/* How many replicas are connected and have been given all data, up to REPLICAS_MOST: to be asked
 * before each request that needs some. O(1) unless one has come or gone. */
size_t replicasOnline(RedisModuleCtx *ctx);

/* A replica may have come or gone. Allowed in every callback. */
void replicasMayHaveChanged(void);

/* Looks. What follows says what was seen the last time. */
void replicasLook(RedisModuleCtx *ctx);

/* How far the stream to the replicas had come. */
int64_t replicasSent(void);

/* How far `count` replicas, at least 1, have acknowledged it; -1 when fewer are online. */
int64_t replicasAcknowledged(size_t count);

/* Asks them to acknowledge, if somebody waits for `offset` that the last question does not cover.
 * One question at a time: the next goes out as soon as the fastest replica has answered the last;
 * or after a while, as the one that was to answer may have gone. Not while nothing may be sent to
 * them (serverWritableNow): then they acknowledge by themselves. Returns whether one went out. Only
 * where effectsAskReplicas may be called, after a look. */
bool replicasAsk(RedisModuleCtx *ctx, int64_t offset);

/* Whether none is under way, as seen at the last look. */
bool replicasHaveAnswered(void);

/* Nobody waits for the answer to the last question. */
void replicasForgetQuestion(void);

#endif
