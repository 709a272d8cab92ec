/* A blocked client, whatever it waits for: how it is blocked, its deadline, what happens when its
 * connection closes, and its reply.
 *
 * A waiter of any kind embeds `struct blocked`, and defines in a `struct blockedKind` what happens
 * when the deadline passes, the connection closes, or CLIENT UNBLOCK ends the wait. A waiter may
 * outlive its client. After that it only has a deadline.
 *
 * A reply is created when the wait ends, and is passed to RedisModule_UnblockClient. The server
 * calls a function of this file to write the reply, and then another one to free it. If the
 * connection was closed in between, the reply is not written, and `onEnd` of its receipt is called
 * with `delivered` false.
 */
#ifndef LOCK_BLOCKED_H
#define LOCK_BLOCKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/reply.h"
#include "core/hashmap.h"
#include "redismodule.h"
#include "server/timer.h"

/* The time in µs that a reply costs the server after the time slice in which the reply was created
 * (timesliceCharge). Most of it is for writing the reply. */
#define BLOCKED_REPLY_US 8

/* The deadline of BLOCK 0, which never passes. */
#define BLOCKED_FOREVER INT64_MAX

struct blocked {
    const struct blockedKind *kind;
    RedisModuleBlockedClient *bc; /* NULL if there is no client */
    struct mapEntry by_client;    /* leads from `bc` to the waiter */
    unsigned long long client_id; /* as LOCK.INFO shows it; 0 if there is no client */
    /* For the deadline: by the monotonic clock while there is a client, by the wall clock after
     * that; not set if there is no deadline. */
    struct timer timer;
    int64_t end_ms;       /* see blockedEndMs */
    uint64_t clock_steps; /* timerClockSteps at the time when `end_ms` was computed */
};

/* What a kind of waiter does when a wait ends and the client has not received what it waited for.
 * Each function may free `blocked`. */
struct blockedKind {
    /* The deadline has passed. */
    void (*onDeadline)(RedisModuleCtx *ctx, struct blocked *blocked);
    /* The client is gone. Either its connection has closed, or the server itself has replied to it,
     * because of CLIENT UNBLOCK … ERROR or because the server became a replica. */
    void (*onGone)(RedisModuleCtx *ctx, struct blocked *blocked);
    /* CLIENT UNBLOCK … TIMEOUT has ended the wait, and the client has received null. */
    void (*onUnblock)(RedisModuleCtx *ctx, struct blocked *blocked);
};

/* Blocks the client of `ctx`, without a deadline. If the server does not block this client, returns
 * false and changes nothing. */
bool blockedBegin(struct blocked *blocked, RedisModuleCtx *ctx, const struct blockedKind *kind);

/* The wait times out `block_ms` from now, or never if `block_ms` is 0. `now_ms` is the unix time
 * now. Replaces any earlier deadline. The time is measured by the monotonic clock, so that no wait
 * becomes longer or shorter when the wall clock is set. */
void blockedEndAfter(RedisModuleCtx *ctx, struct blocked *blocked, int64_t block_ms,
                     int64_t now_ms);

/* The wait, which is kept without its client, ends at `at_ms`, unix time. Replaces any earlier
 * deadline. */
void blockedEndAt(RedisModuleCtx *ctx, struct blocked *blocked, int64_t at_ms);

/* The unix time in ms at which the wait ends, or BLOCKED_FOREVER. Every call returns the same time
 * until the wall clock is set. After that the time is computed again, from `now_ms`. */
int64_t blockedEndMs(struct blocked *blocked, int64_t now_ms);

/* Removes the deadline. To be called before `blocked` is freed. */
static inline void blockedStopTimer(RedisModuleCtx *ctx, struct blocked *blocked) {
    timerStop(ctx, &blocked->timer);
}

/* Moves the client of `from` to `to`, which must have no client. The client waits for something
 * else from now on, and has no deadline. */
void blockedMove(struct blocked *from, struct blocked *to, const struct blockedKind *kind);

/* Whether the map of blocked clients contains `blocked` for its client. */
bool blockedIsFound(const struct blocked *blocked);

/* How many clients are blocked, and whether one more may be blocked (lock.max-waiters). */
size_t blockedCount(void);
bool blockedHaveRoom(void);

/* How many replies have been created and not been freed by the server yet. */
size_t blockedAnswersInFlight(void);

/* Each of the following functions unblocks the client with a reply, if there is a client. After
 * that `blocked` has no client, but keeps its deadline. */

/* `onEnd` is called with `data` when the server has written the reply (`delivered` is true), or has
 * found that the connection of the client was closed (`delivered` is false). */
struct blockedReceipt {
    void (*onEnd)(RedisModuleCtx *ctx, bool delivered, void *data);
    void *data;
};

/* With an integer. There must be a client. `receipt.onEnd` may be NULL. */
void blockedAnswerNumber(struct blocked *blocked, int64_t number, struct blockedReceipt receipt);
void blockedAnswerWord(struct blocked *blocked, enum replyWord word);
void blockedAnswerNull(struct blocked *blocked);
void blockedAnswerError(struct blocked *blocked, enum replyError error);
/* With the error DEADLOCK and this text. The callee frees the text. */
void blockedAnswerDeadlock(struct blocked *blocked, RedisModuleString *cycle);
/* With this error text, such as one from redirectFind. The text remains the caller's. */
void blockedAnswerText(struct blocked *blocked, RedisModuleString *error);

/* Unblocks a client that is gone, or that the server itself replies to. */
void blockedEnd(struct blocked *blocked);

/* Ends all waits, after the server has become a replica and has replied to the clients that waited.
 * In a cluster, Valkey 9 does not reply to clients that are not blocked on keys. These clients
 * receive the same error here. Allowed in every callback. */
void blockedEndAll(RedisModuleCtx *ctx);

#endif
