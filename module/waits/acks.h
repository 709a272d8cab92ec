/* Answers that wait for replicas (REPLICAS n ms): the grant is written and in flight, and its client
 * is told when n replicas have acknowledged all that was written by then.
 *
 * One look at the end of each turn of the server's loop serves all of them, and one question to the
 * replicas, which is asked anew only when the last one has been answered. Nothing is looked at
 * while no answer waits.
 *
 * An answer that is not acknowledged in time is *refused*: the drain releases its holds, and then
 * the client gets its error. One whose client dies meanwhile is lost, as any grant in flight.
 */
#ifndef LOCK_ACKS_H
#define LOCK_ACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocking/blocked.h"
#include "redismodule.h"
#include "server/reply.h"
#include "waits/acquisition.h"
#include "waits/inflight.h"

struct ack;

struct acksAnswer {
    struct acquisitionReplicas replicas;
    int64_t number;
    struct inflight *inflight; /* what it tells of; the callee's */
    bool is_renewal;           /* not for LOCK.CANCEL to end */
    int64_t lease_ms;          /* it waits no longer than what it tells of may last */
    int64_t now_ms;
};

/* Whether the command of `ctx` may wait for these replicas; to be asked before anything is written.
 * RESULT_DONE, also if it asks for none; RESULT_FEW_REPLICAS, RESULT_NO_WAIT_FOR_REPLICAS,
 * RESULT_TOO_MANY_WAITERS. */
enum result acksReady(RedisModuleCtx *ctx, const struct acquisitionReplicas *replicas);

/* Blocks the client of the running command, which is told when replicas have acknowledged what the
 * command has written. RESULT_WAITING; or RESULT_NO_WAIT_FOR_REPLICAS, when the server will not
 * block this client: then its holds are lost. */
enum result acksBegin(RedisModuleCtx *ctx, const struct acksAnswer *answer);

/* Likewise, for a client that is blocked already, and has waited for the grant. */
void acksGoOn(RedisModuleCtx *ctx, struct blocked *client, const struct acksAnswer *answer);

/* Ends all waits for replicas of this owner on this lock: the drain releases their holds, and then the
 * clients get null. Returns how many they were. */
size_t acksCancel(RedisModuleCtx *ctx, int db, RedisModuleString *name, RedisModuleString *owner);

/* How many answers wait. */
size_t acksCount(void);

/* The next answer that is refused, or NULL. */
struct ack *acksFirstRefused(void);

/* Its holds are lost from now on, and to be released before its client is told. */
void acksLose(RedisModuleCtx *ctx, struct ack *ack);

/* Tells its client; `ack` is gone. */
void acksTellRefused(RedisModuleCtx *ctx, struct ack *ack);

/* The drain's jobs, beside the release of what is refused: ends the look at each turn, when nobody
 * has waited for a while; while clients are paused, tells who is refused without a release, which
 * comes later. */
void acksRest(RedisModuleCtx *ctx, int64_t now_ms);
void acksForget(RedisModuleCtx *ctx);
void acksHold(RedisModuleCtx *ctx, int64_t now_ms);

#endif
