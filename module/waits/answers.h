/* What a blocked client is told when its wait is over.
 *
 * An answer is made when the wait ends and travels as the private data of the unblocking: the
 * server prints it through a callback of this file before it sleeps, and then frees it. A client
 * that died in between is never told; whoever made the answer hears of it.
 */
#ifndef LOCK_ANSWERS_H
#define LOCK_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "redismodule.h"
#include "server/reply.h"

/* Blocks the client of `ctx`, without a deadline of the server's. `onUnblock` serves CLIENT UNBLOCK
 * … TIMEOUT on servers that can, `onDisconnect` is called when the client goes. Returns NULL when
 * the server will not block this client; then nothing has happened. */
RedisModuleBlockedClient *answersBlock(RedisModuleCtx *ctx, RedisModuleCmdFunc onUnblock,
                                       RedisModuleDisconnectFunc onDisconnect);

/* Each of these ends the block and answers the client. */

/* With a number. Then, or when the client turned out to be dead, calls `told(ctx, delivered,
 * data)`. */
void answersSendNumber(RedisModuleBlockedClient *bc, int64_t number,
                       void (*told)(RedisModuleCtx *ctx, bool delivered, void *data), void *data);
void answersSendNull(RedisModuleBlockedClient *bc);
void answersSendError(RedisModuleBlockedClient *bc, enum replyError error);
/* With DEADLOCK and this text, which is the callee's. */
void answersSendDeadlock(RedisModuleBlockedClient *bc, RedisModuleString *cycle);
/* With ASK or MOVED. `address` is `host:port`, and copied. */
void answersSendRedirection(RedisModuleBlockedClient *bc, bool asks, int slot, const char *address,
                            size_t length);

/* How many answers the server has not yet written, or found to have no reader. */
size_t answersInFlight(void);

/* Ends the block of a client that is gone, or is answered by the server itself. */
void answersSendNothing(RedisModuleBlockedClient *bc);

#endif
