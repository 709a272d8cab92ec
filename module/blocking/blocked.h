/* A blocked client, whatever it waits for: blocking it, its deadline, its going away, its answer.
 *
 * A waiter of any kind embeds `struct blocked`, and says in a `struct blockedKind` what is to
 * happen when the deadline comes, the connection closes, or CLIENT UNBLOCK ends the wait. It may
 * outlive its client: then it has a deadline only.
 *
 * An answer is made when the wait ends and travels as the private data of the unblocking: the
 * server prints it through a callback of this file, and then frees it. A client that died in
 * between is never told; whoever made the answer hears of it.
 */
#ifndef LOCK_BLOCKED_H
#define LOCK_BLOCKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "redismodule.h"
#include "server/reply.h"
#include "server/timer.h"

/* What the server spends on an answer, most of it to write it, after the turn that has made it
 * (turnCharge). */
#define BLOCKED_REPLY_US 8

/* A deadline that never comes: BLOCK 0. */
#define BLOCKED_FOR_EVER INT64_MAX

struct blocked {
    const struct blockedKind *kind;
    RedisModuleBlockedClient *bc; /* NULL: there is no client, or none any more */
    struct mapEntry by_client;
    unsigned long long client_id; /* 0: likewise */
    struct timer timer;           /* for the deadline */
    int64_t end_ms;               /* see blockedEndMs */
    uint64_t clock_steps;         /* timerClockSteps, when `end_ms` was reckoned */
};

/* What a kind of waiter does when its wait ends otherwise than it has waited for. Each may free
 * what it is given. */
struct blockedKind {
    /* The deadline has come. */
    void (*onDeadline)(RedisModuleCtx *ctx, struct blocked *blocked);
    /* There is no client any more: its connection has closed, or the server itself has answered it,
     * by CLIENT UNBLOCK … ERROR or because it became a replica. */
    void (*onGone)(RedisModuleCtx *ctx, struct blocked *blocked);
    /* Likewise, but by CLIENT UNBLOCK … TIMEOUT: it has been told null. */
    void (*onUnblock)(RedisModuleCtx *ctx, struct blocked *blocked);
};

/* Blocks the client of `ctx`, for ever. Returns false when the server will not block this client;
 * then nothing has happened. */
bool blockedBegin(struct blocked *blocked, RedisModuleCtx *ctx, const struct blockedKind *kind);

/* The wait ends by itself after `block_ms` from now, which is `now_ms` in unix time, and not earlier or
 * later as it was to; 0 = never. The time is measured by the monotonic clock: setting the wall clock
 * makes no wait longer or shorter. */
void blockedEndAfter(RedisModuleCtx *ctx, struct blocked *blocked, int64_t block_ms,
                     int64_t now_ms);

/* What is kept without its client ends at this unix time. */
void blockedEndAt(RedisModuleCtx *ctx, struct blocked *blocked, int64_t at_ms);

/* At which unix time it ends, or BLOCKED_FOR_EVER. The same each time, until the wall clock is set: then
 * it is reckoned anew. */
int64_t blockedEndMs(struct blocked *blocked, int64_t now_ms);

void blockedStopTimer(RedisModuleCtx *ctx, struct blocked *blocked);

/* The client of `from` waits for something else from now on: `to`, which has none, has it,
 * and no deadline yet. */
void blockedMove(struct blocked *from, struct blocked *to, const struct blockedKind *kind);

/* Whether the map of blocked clients leads from the client to this. */
bool blockedIsFound(const struct blocked *blocked);

/* How many clients are blocked, and whether one more may be (lock.max-waiters). */
size_t blockedCount(void);
bool blockedHaveRoom(void);

/* How many answers the server has not yet written, or found to have no reader. */
size_t blockedAnswersInFlight(void);

/* Each of these ends the block and answers the client, if there is one. The client is gone then;
 * the deadline stays. */

/* What is called with `data` when the number has been delivered, or when the client turned out to
 * be dead. */
struct blockedReceipt {
    void (*told)(RedisModuleCtx *ctx, bool delivered, void *data);
    void *data;
};

/* With a number. There must be a client. */
void blockedAnswerNumber(struct blocked *blocked, int64_t number, struct blockedReceipt receipt);
void blockedAnswerWord(struct blocked *blocked, enum replyWord word);
void blockedAnswerNull(struct blocked *blocked);
void blockedAnswerError(struct blocked *blocked, enum replyError error);
/* With DEADLOCK and this text, which is the callee's. */
void blockedAnswerDeadlock(struct blocked *blocked, RedisModuleString *cycle);
/* With this error, of redirectFind or its like; it stays the caller's. */
void blockedAnswerText(struct blocked *blocked, RedisModuleString *error);

/* Ends the block of a client that is gone, or is answered by the server itself. */
void blockedEnd(struct blocked *blocked);

/* The server has become a replica, and has answered those who waited. In a cluster Valkey 9 leaves
 * out who is not blocked on keys: they hear the same from here. Allowed in every callback. */
void blockedEndAll(RedisModuleCtx *ctx);

#endif
