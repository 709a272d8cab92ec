/* A blocked client, whatever it waits for: how it is blocked, its deadline, what happens when its
 * connection closes, and its reply.
 *
 * A waiter of any kind embeds `struct blocked`, and defines in a `struct blockedKind` what happens
 * when the deadline passes, the connection closes, or CLIENT UNBLOCK ends the wait. It may outlive
 * its client: then it only has a deadline.
 *
 * A reply is made when the wait ends, and is the private data of the unblocking: the server calls
 * back into this file to write it, and then to free it. If the client has died in between, the
 * reply is not written, and the receipt that was given with it is called with `delivered` false.
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

/* What a reply costs the server in µs, most of it for writing it, after the time slice that made it
 * (timesliceCharge). */
#define BLOCKED_REPLY_US 8

/* A deadline that never passes: BLOCK 0. */
#define BLOCKED_FOREVER INT64_MAX

struct blocked {
    const struct blockedKind *kind;
    RedisModuleBlockedClient *bc; /* NULL: there is no client */
    struct mapEntry by_client;
    unsigned long long client_id; /* 0: there is no client */
    struct timer timer;           /* for the deadline */
    int64_t end_ms;               /* see blockedEndMs */
    uint64_t clock_steps;         /* timerClockSteps when `end_ms` was computed */
};

/* What a kind of waiter does when its wait ends without what it waits for. Each function may free
 * what it is given. */
struct blockedKind {
    /* The deadline has passed. */
    void (*onDeadline)(RedisModuleCtx *ctx, struct blocked *blocked);
    /* The client is gone: its connection has closed, or the server itself has replied to it,
     * because of CLIENT UNBLOCK … ERROR or because the server became a replica. */
    void (*onGone)(RedisModuleCtx *ctx, struct blocked *blocked);
    /* The same for CLIENT UNBLOCK … TIMEOUT: the client has received null. */
    void (*onUnblock)(RedisModuleCtx *ctx, struct blocked *blocked);
};

/* Blocks the client of `ctx`, without a deadline. Returns false if the server does not block this
 * client; then nothing has changed. */
bool blockedBegin(struct blocked *blocked, RedisModuleCtx *ctx, const struct blockedKind *kind);

/* The wait times out `block_ms` from now, which is `now_ms` in unix time; 0: never. Replaces any
 * earlier deadline. The time is measured by the monotonic clock: setting the wall clock makes no
 * wait longer or shorter. */
void blockedEndAfter(RedisModuleCtx *ctx, struct blocked *blocked, int64_t block_ms,
                     int64_t now_ms);

/* What is kept without its client ends at `at_ms`, unix time. Replaces any earlier deadline. */
void blockedEndAt(RedisModuleCtx *ctx, struct blocked *blocked, int64_t at_ms);

/* The unix time in ms at which it ends, or BLOCKED_FOREVER. The same on every call, until the wall
 * clock is set: then it is computed again from `now_ms`. */
int64_t blockedEndMs(struct blocked *blocked, int64_t now_ms);

/* It has no deadline from now on. To be called before `blocked` is freed. */
void blockedStopTimer(RedisModuleCtx *ctx, struct blocked *blocked);

/* Moves the client of `from` to `to`, which has none: it waits for something else from now on,
 * without a deadline. */
void blockedMove(struct blocked *from, struct blocked *to, const struct blockedKind *kind);

/* Whether this is found by its client in the map of blocked clients. */
bool blockedIsFound(const struct blocked *blocked);

/* How many clients are blocked, and whether one more may be blocked (lock.max-waiters). */
size_t blockedCount(void);
bool blockedHaveRoom(void);

/* How many replies the server has neither written yet nor found to have no client. */
size_t blockedAnswersInFlight(void);

/* Each of the following functions unblocks the client with a reply, if there is a client. `blocked`
 * has no client after that; its deadline stays. */

/* What is called with `data` when the reply has been delivered (`delivered`), or when the client
 * turned out to be dead. */
struct blockedReceipt {
    void (*onEnd)(RedisModuleCtx *ctx, bool delivered, void *data);
    void *data;
};

/* With an integer. There must be a client. `receipt.onEnd` may be NULL. */
void blockedAnswerNumber(struct blocked *blocked, int64_t number, struct blockedReceipt receipt);
void blockedAnswerWord(struct blocked *blocked, enum replyWord word);
void blockedAnswerNull(struct blocked *blocked);
void blockedAnswerError(struct blocked *blocked, enum replyError error);
/* With the error DEADLOCK and this text, which the callee takes over. */
void blockedAnswerDeadlock(struct blocked *blocked, RedisModuleString *cycle);
/* With this error text, such as that of redirectFind; it stays the caller's. */
void blockedAnswerText(struct blocked *blocked, RedisModuleString *error);

/* Unblocks a client that is gone, or that the server replies to itself. */
void blockedEnd(struct blocked *blocked);

/* The server has become a replica and has replied to the clients that waited. In a cluster Valkey 9
 * leaves out clients that are not blocked on keys: these receive the same error here. Allowed in
 * every callback. */
void blockedEndAll(RedisModuleCtx *ctx);

#endif
