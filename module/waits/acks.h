/* Replies that wait for replicas (REPLICAS n ms): the grant is written and in flight, and its
 * client receives the reply when n replicas have acknowledged everything that was written up to the
 * grant.
 *
 * One check at the end of each event-loop iteration serves all of them, and so does one request to
 * the replicas to acknowledge, which is sent again only when the last one has been answered. While
 * no reply waits there is no check.
 *
 * A reply that is not acknowledged within its time is *refused*: the drain releases its holds, and
 * then the client receives the error. If the client dies meanwhile, the grant is lost, as any grant
 * in flight.
 */
#ifndef LOCK_ACKS_H
#define LOCK_ACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocking/blocked.h"
#include "redismodule.h"
#include "server/reply.h"
#include "waits/pendingreply.h"
#include "waits/request.h"

struct ack;

struct acksAnswer {
    struct requestReplicas replicas;
    int64_t number;
    struct pendingreply *pendingreply; /* what the reply reports; the callee takes it over */
    bool is_renewal;                   /* LOCK.CANCEL does not end it */
    int64_t lease_ms;                  /* of the grant: the reply waits no longer than that */
    int64_t now_ms;
};

/* Whether the command of `ctx` may wait for these replicas; to be called before anything is
 * written. RESULT_DONE: it may, or it requests none. RESULT_FEW_REPLICAS: fewer are connected.
 * RESULT_NO_WAIT_FOR_REPLICAS: its client may not be blocked. RESULT_TOO_MANY_WAITERS:
 * lock.max-waiters is reached. */
enum result acksReady(RedisModuleCtx *ctx, const struct requestReplicas *replicas);

/* Blocks the client of the running command, which receives its reply when replicas have
 * acknowledged what the command has written. RESULT_WAITING; or RESULT_NO_WAIT_FOR_REPLICAS if the
 * server does not block this client: then its holds are lost. */
enum result acksBegin(RedisModuleCtx *ctx, const struct acksAnswer *answer);

/* The same for a client that is blocked already, because it has waited for the grant. `client`
 * loses its client. */
void acksGoOn(RedisModuleCtx *ctx, struct blocked *client, const struct acksAnswer *answer);

/* Ends all waits for replicas of this owner on this lock: the drain releases their holds, and then
 * the clients receive null. Returns how many there were. */
size_t acksCancel(RedisModuleCtx *ctx, int db, RedisModuleString *name, RedisModuleString *owner);

/* How many replies wait, including those refused and not yet sent. */
size_t acksCount(void);

/* The first refused reply, or NULL. */
struct ack *acksFirstRefused(void);

/* Makes its holds lost. The caller releases them, and then calls acksReplyRefused. */
void acksLose(RedisModuleCtx *ctx, struct ack *ack);

/* Sends its client the error, or null after LOCK.CANCEL, and frees `ack`. */
void acksReplyRefused(RedisModuleCtx *ctx, struct ack *ack);

/* The drain's jobs, in addition to the release of what is refused. acksRest ends the checks when
 * nobody has waited for a while, acksForget on a replica. While clients are paused, acksHold sends
 * refused replies before their holds can be released. */
void acksRest(RedisModuleCtx *ctx, int64_t now_ms);
void acksForget(RedisModuleCtx *ctx);
void acksHold(RedisModuleCtx *ctx, int64_t now_ms);

#endif
