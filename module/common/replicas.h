/* The offsets up to which the replicas of this master have acknowledged the replication stream.
 *
 * No server notifies a module of an acknowledgement. A query (INFO replication) costs some 20 µs
 * each time, so the server is queried only while a client waits for an acknowledgement. A replica
 * acknowledges once a second without a request, and at once if the stream contains a request. WAIT
 * cannot be used, because Redis 7.0 crashes when a module calls it.
 */
#ifndef LOCK_REPLICAS_H
#define LOCK_REPLICAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

/* At most this many replicas are distinguished. */
#define REPLICAS_MOST 64

/* How many replicas are connected and have received all data, up to REPLICAS_MOST. To be called
 * before each request that needs replicas. O(1) unless a replica has connected or disconnected. */
size_t replicasOnline(RedisModuleCtx *ctx);

/* To be called when a replica may have connected or disconnected. Allowed in every callback. */
void replicasMayHaveChanged(void);

/* Queries the server. The functions below return the result of the last query. */
void replicasLook(RedisModuleCtx *ctx);

/* The offset up to which the stream was sent to the replicas. */
int64_t replicasSent(void);

/* The offset up to which `count` replicas, at least 1, have acknowledged the stream; -1 if fewer
 * are online. */
int64_t replicasAcknowledged(size_t count);

/* Requests an acknowledgement from the replicas, if a client waits for `offset` and the last
 * request does not cover that offset. There is only one request at a time. The next one is sent as
 * soon as the fastest replica has answered the last one, or after a while, because that replica may
 * have disconnected. While nothing may be sent to the replicas (serverWritableNow), sends no
 * request; the replicas still acknowledge once a second. Returns whether a request was sent. To be
 * called after replicasLook, and only where propagateAskReplicas may be called. */
bool replicasAsk(RedisModuleCtx *ctx, int64_t offset);

/* Whether all requests were answered at the time of the last query. */
bool replicasHaveAnswered(void);

/* Forgets the last request. To be called when no client waits for the answer to it any more. */
void replicasForgetQuestion(void);

#endif
