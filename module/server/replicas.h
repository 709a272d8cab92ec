/* How far the replicas of this master have acknowledged the replication stream.
 *
 * No server notifies a module of an acknowledgement. It can be queried (INFO replication) in some
 * 20 µs each time, so that is done only while a client waits for one. A replica acknowledges once a
 * second by itself, and at once if the stream requests it. WAIT cannot be used: Redis 7.0 crashes
 * when a module calls it.
 */
#ifndef LOCK_REPLICAS_H
#define LOCK_REPLICAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

/* At most this many replicas are distinguished. */
#define REPLICAS_MOST 64

/* How many replicas are connected and have received all data, up to REPLICAS_MOST; to be called
 * before each request that needs some. O(1) unless one has come or gone. */
size_t replicasOnline(RedisModuleCtx *ctx);

/* A replica may have come or gone. Allowed in every callback. */
void replicasMayHaveChanged(void);

/* Queries the server. The functions below return what was seen the last time. */
void replicasLook(RedisModuleCtx *ctx);

/* The offset up to which the stream was sent to the replicas. */
int64_t replicasSent(void);

/* The offset up to which `count` replicas, at least 1, have acknowledged the stream; -1 if fewer
 * are online. */
int64_t replicasAcknowledged(size_t count);

/* Requests an acknowledgement from the replicas, if a client waits for `offset` and the last
 * request does not cover that. There is one request at a time: the next is sent as soon as the
 * fastest replica has answered the last one; or after a while, because that replica may have gone.
 * Not while nothing may be sent to them (serverWritableNow): then they acknowledge by themselves.
 * Returns whether a request was sent. Only where propagateAskReplicas may be called, after
 * replicasLook. */
bool replicasAsk(RedisModuleCtx *ctx, int64_t offset);

/* Whether no request is unanswered, as seen at the last look. */
bool replicasHaveAnswered(void);

/* No client waits for the answer to the last request any more. */
void replicasForgetQuestion(void);

#endif
