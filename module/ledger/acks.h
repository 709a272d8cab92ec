/* Replies that wait for replicas (REPLICAS n ms). The grant is written and in flight. The client
 * receives the reply when n replicas have acknowledged everything that was written up to the grant.
 *
 * One check at the end of each event-loop iteration serves all these replies. One request to the
 * replicas to acknowledge serves all of them too; it is sent again only when the last one has been
 * answered. While no reply waits, no check is made.
 *
 * A reply that is not acknowledged within its timeout is *refused*. The drain releases its holds,
 * and after that the client receives the error. If the client's connection closes meanwhile, the
 * grant is lost, as any grant in flight is.
 */
#ifndef LOCK_ACKS_H
#define LOCK_ACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocking/blocked.h"
#include "common/reply.h"
#include "ledger/pendingreply.h"
#include "redismodule.h"
#include "waits/request.h"

struct ack;

struct acksAnswer {
    struct requestReplicas replicas;
    int64_t number;
    struct pendingreply *pendingreply; /* the holds that the reply reports; the callee frees it */
    bool is_renewal;                   /* if so, LOCK.CANCEL does not end the wait */
    int64_t lease_ms; /* the lease of the grant; the reply waits no longer than this */
    int64_t now_ms;
};

/* Whether the command of `ctx` may wait for these replicas. To be called before anything is
 * written. Returns:
 *
 *   RESULT_DONE                    the command may wait, or it requests no replicas
 *   RESULT_FEW_REPLICAS            fewer replicas are connected
 *   RESULT_NO_WAIT_FOR_REPLICAS    the client of the command must not be blocked
 *   RESULT_TOO_MANY_WAITERS        lock.max-waiters is reached
 */
enum result acksReady(RedisModuleCtx *ctx, const struct requestReplicas *replicas);

/* Blocks the client of the running command. The client receives its reply when replicas have
 * acknowledged what the command has written. Returns RESULT_WAITING. If the server does not block
 * this client, returns RESULT_NO_WAIT_FOR_REPLICAS, and the holds of the grant are lost. */
enum result acksBegin(RedisModuleCtx *ctx, const struct acksAnswer *answer);

/* As acksBegin, for a client that is already blocked, because it has waited for the grant. After
 * that `client` has no client. */
void acksGoOn(RedisModuleCtx *ctx, struct blocked *client, const struct acksAnswer *answer);

/* Ends all waits for replicas that report these holds. The drain releases the holds, and after that
 * the clients receive null. Returns how many waits were ended. */
size_t acksCancel(RedisModuleCtx *ctx, const struct holdId *id);

/* How many replies wait, including refused ones that have not been sent yet. */
size_t acksCount(void);

/* The first refused reply, or NULL. */
struct ack *acksFirstRefused(void);

/* Marks the holds of the reply as lost. The caller must release them, and then call
 * acksReplyRefused. */
void acksLose(RedisModuleCtx *ctx, struct ack *ack);

/* Sends the error to the client, or null after LOCK.CANCEL, and frees `ack`. */
void acksReplyRefused(RedisModuleCtx *ctx, struct ack *ack);

/* Jobs of the drain, in addition to the release of holds whose replies were refused. acksRest ends
 * the checks when no reply has waited for a while, and acksForget ends them on a replica. While
 * clients are paused, acksHold sends refused replies before their holds can be released. */
void acksRest(RedisModuleCtx *ctx, int64_t now_ms);
void acksForget(RedisModuleCtx *ctx);
void acksHold(RedisModuleCtx *ctx, int64_t now_ms);

#endif
