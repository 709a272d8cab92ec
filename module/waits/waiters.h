/* Blocked clients: how a request begins to wait, what ends the wait, and how the client is told.
 *
 *   waitersBlock -> waitersStandIn for each key -> waitersBegin -> one of
 *      waitersGrant    the lock is the owner's
 *      waitersEnd      cancelled, redirected, refused
 *      a callback      timed out, connection gone, CLIENT UNBLOCK
 *
 * A waiter that has ended is out of every queue at once, and its client is answered before the
 * server sleeps. A hold whose client dies before that is released by the drain: see inflight.h.
 *
 * A fair waiter (discipline FAIR) outlives its client: when the connection closes it is *detached*,
 * and keeps its position for a while. And since its position is written down in keys, which this file
 * never touches, a fair waiter whose position changes is noted in its lock's `fair.unwritten`, for
 * fairness.c.
 */
#ifndef LOCK_WAITERS_H
#define LOCK_WAITERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/waitgraph.h"
#include "core/waitqueue.h"
#include "redismodule.h"
#include "waits/contended.h"

/* A deadline that never comes: BLOCK 0. */
#define WAITERS_NO_DEADLINE INT64_MAX

/* A wait is searched from so long after it has begun; one that ends sooner, as most do, costs no
 * search. */
#define WAITERS_SEARCH_DELAY_MS 2

/* How a wait ends without the lock, and what the client is told. */
enum waitersEnding {
    WAITERS_TIMED_OUT,      /* null */
    WAITERS_CANCELLED,      /* null */
    WAITERS_TOO_MANY_HOLDS, /* an error: the hold count would exceed its limit */
    WAITERS_TRY_AGAIN       /* an error: the slot is being moved */
};

/* One key that a waiter waits for. */
struct standing {
    struct position position;
    RedisModuleString *name;
};

struct waiter {
    struct request request;
    RedisModuleString *owner;
    RedisModuleBlockedClient *bc; /* NULL: detached */
    struct mapEntry by_client;
    unsigned long long client_id;
    bool session; /* the hold is to be bound to the client */
    bool fenced;  /* is answered with a fencing token */
    int64_t lease_ms;
    int64_t since_ms;
    int64_t deadline_ms;   /* of a detached waiter: when its reserved position ends */
    uint64_t search_at_us; /* of a newcomer, monotonic */
    int64_t ticket;        /* FAIR only */
    RedisModuleTimerID timer;
    struct link note; /* in the lock's `fair.unwritten` */
    int db;
    bool has_timer;
    bool over;   /* out of its queue; only its position in the keys is left to be removed */
    bool noted;  /* stands in the lock's `fair.unwritten` */
    bool placed; /* FAIR only: the keys know its ticket */
    size_t standing_count; /* in how many of its keys' queues it stands, or has stood */
    size_t in_the_way; /* the number of the key that did not fit the last time; see multikey.c */
    struct standing standings[];
};

/* What the client of `ctx` asks to wait for. */
struct waitersSpec {
    RedisModuleString *owner;
    enum lockMode mode;
    enum discipline discipline;
    bool session, fenced;
    int64_t lease_ms;
    int64_t block_ms; /* 0 = for ever */
    int64_t now_ms;
    size_t key_count;
};

/* Whether one more client may wait (lock.max-waiters). */
bool waitersHaveRoom(void);

/* Blocks the client of `ctx` and arms its deadline. The caller then makes it stand in `key_count`
 * queues and makes no reply. Returns NULL when the server will not block this client; then nothing
 * has happened. */
struct waiter *waitersBlock(RedisModuleCtx *ctx, const struct waitersSpec *spec);

/* Makes the waiter stand in this lock's queue, as its key number `index`; at the head if `first`. */
void waitersStandIn(struct waiter *waiter, size_t index, struct lock *lock, bool first);

/* Makes a fair waiter stand where `old`, its owner's, stands; the client of `old`, if it has one,
 * gets null. `old` is gone afterwards. */
void waitersTakeOver(RedisModuleCtx *ctx, struct waiter *old, struct waiter *waiter);

/* The waiter, which has a client, stands in all its queues now. It is a newcomer: the alarm is set
 * for when it is to be searched from. With lock.deadlock-detection off it is not, and can be part of
 * a cycle at once. */
void waitersBegin(RedisModuleCtx *ctx, struct waiter *waiter);

/* The newcomer that came first, or NULL. */
struct waiter *waitersFirstNewcomer(void);

size_t waitersNewcomerCount(void);

/* The newcomer has been searched from, and what it waits for can be part of a cycle from now on. */
void waitersSearched(struct waiter *newcomer);

/* Makes a detached fair waiter at the head of this lock's queue: a position from an earlier life, kept
 * until `end_ms`. */
void waitersRestore(RedisModuleCtx *ctx, struct lock *lock, RedisModuleString *owner,
                    int64_t ticket, int64_t end_ms, int64_t now_ms);

struct waiter *waitersOfPosition(struct position *position);

/* The waiter, which has a client, has the lock and is told `answer`. It leaves every queue and is
 * gone. */
void waitersGrant(RedisModuleCtx *ctx, struct waiter *waiter, int64_t answer, int64_t now_ms);

/* The wait ends without the lock. The waiter leaves every queue and is gone; a lock whose head it
 * was becomes due. */
void waitersEnd(RedisModuleCtx *ctx, struct waiter *waiter, enum waitersEnding how);

/* Likewise, of a waiter with a client: its wait closes this cycle. The text is the callee's. */
void waitersEndDeadlock(RedisModuleCtx *ctx, struct waiter *waiter, RedisModuleString *cycle);

/* Likewise: the client is sent to another node, by ASK or by MOVED. `address` is `host:port`, and
 * copied. */
void waitersEndRedirected(RedisModuleCtx *ctx, struct waiter *waiter, bool asks, int slot,
                          const char *address, size_t length);

/* Who of them waits for whom. */
struct waitgraph *waitersGraph(void);

/* How many clients wait. */
size_t waitersCount(void);

/* The next fair waiter of this lock whose position is not written down as it is, or NULL; it is not
 * noted any more. One that is `over` is the caller's to free. */
struct waiter *waitersNextUnwritten(struct lock *lock);

/* The keys know nothing of the position of this fair waiter: notes that. */
void waitersNoteUnplaced(struct lock *lock, struct waiter *waiter);

/* Forgets what is not written down of this lock: its keys are another node's now, or all that
 * memory knows is written anew. */
void waitersForgetUnwritten(struct lock *lock);

/* Forgets every waiter of this lock that has no client, without a trace in the keys: they are
 * another node's now. `lock` may be gone afterwards. */
void waitersForgetDetached(RedisModuleCtx *ctx, struct lock *lock);

void waitersFree(struct waiter *waiter);

#endif
