/* The waiters: how a request begins to wait for locks, and what ends the wait.
 *
 * A waiter whose wait has ended is removed from all queues at once, and its client is replied to
 * before the server sleeps. If the client dies before that, the drain releases the hold: see
 * pendingreply.h.
 *
 * A fair waiter (discipline FAIR) outlives its client: when the connection closes it is *detached*,
 * and keeps its position for a while. Its position is stored in keys, which this file never writes:
 * changes are recorded as pending, see unwritten.h.
 */
#ifndef LOCK_WAITERS_H
#define LOCK_WAITERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocking/blocked.h"
#include "core/waitgraph.h"
#include "core/waitqueue.h"
#include "redismodule.h"
#include "server/reply.h"
#include "waits/contended.h"
#include "waits/pendingreply.h"
#include "waits/request.h"
#include "waits/waiter.h"

/* How long after a wait began a search for cycles is made from it. Most waits end sooner and cost
 * no search. */
#define WAITERS_SEARCH_DELAY_MS 2

/* How a wait ends without the lock, and what the client receives. */
enum waitersEnding {
    WAITERS_TIMED_OUT,      /* null */
    WAITERS_CANCELLED,      /* null */
    WAITERS_NO_TOKEN,       /* an error: no larger fencing token is left */
    WAITERS_TOO_MANY_HOLDS, /* an error: the hold count would exceed its limit */
    WAITERS_TRY_AGAIN       /* an error: the slot is being moved */
};

/* How a wait is to begin. */
struct waitersStart {
    const struct request *wants;
    RedisModuleString **names; /* of the locks, each once */
    size_t key_count;
    bool at_head;       /* of the queue, for an upgrade (rule 2 of docs/design.md) */
    struct waiter *own; /* FAIR: the owner's waiter, whose position is taken over; or NULL */
};

/* Whether this request may wait, in the command of `ctx`. */
bool waitersMayWait(RedisModuleCtx *ctx, const struct request *wants);

/* Begins to wait, in the selected database. RESULT_WAITING: the client of `ctx` is blocked and
 * `*waiter` is in all queues, as a newcomer; the alarm is set for the search from it. The caller
 * makes no reply, and must set the locks' timers. Or RESULT_BUSY, if it may not wait, or
 * RESULT_TOO_MANY_WAITERS (lock.max-waiters): nothing has changed. */
enum result waitersBegin(RedisModuleCtx *ctx, const struct waitersStart *start,
                         struct waiter **waiter);

/* The number of the latest waiter, 0 if there has been none. */
uint64_t waitersLastNumber(void);

/* How many requests wait, with a client. */
size_t waitersCount(void);

/* The oldest newcomer, or NULL. */
struct waiter *waitersFirstNewcomer(void);

/* How many newcomers there are. */
size_t waitersNewcomerCount(void);

/* A search has been made from the newcomer: its wait can be part of a cycle from now on. */
void waitersSearched(struct waiter *newcomer);

/* Until when positions that were read from the keys are kept, and the time now; unix ms. */
struct waitersLife {
    int64_t end_ms, now_ms;
};

/* Creates a detached fair waiter at the head of this lock's queue, for a position that was read
 * from the keys. */
void waitersRestore(RedisModuleCtx *ctx, struct lock *lock, const struct fairposition *position,
                    struct waitersLife life);

struct waitersGranted {
    int64_t answer;
    struct pendingreply *pendingreply; /* what the reply reports; the callee takes it over */
    int64_t now_ms;
};

/* Ends the wait of a waiter with a client: it has what it waits for, and its client receives the
 * reply, with REPLICAS once they have acknowledged the grant. The waiter is removed from every
 * queue and freed. */
void waitersGrant(RedisModuleCtx *ctx, struct waiter *waiter, const struct waitersGranted *granted);

/* Ends the wait without the lock. The waiter is removed from every queue and freed; a lock whose
 * queue it was first in becomes due. */
void waitersEnd(RedisModuleCtx *ctx, struct waiter *waiter, enum waitersEnding how);

/* The same for a waiter with a client whose wait closes this cycle. The callee takes over the
 * text. */
void waitersEndDeadlock(RedisModuleCtx *ctx, struct waiter *waiter, RedisModuleString *cycle);

/* The same; the client is redirected to another node by this error of redirectFind, which stays the
 * caller's. */
void waitersEndRedirected(RedisModuleCtx *ctx, struct waiter *waiter, RedisModuleString *error);

/* Reserves the position of a fair waiter without a client for lock.fair-reserve from now; during a
 * quarantine, from its end. */
void waitersReserve(RedisModuleCtx *ctx, struct waiter *waiter);

/* Moves the waiter, which waits for one key, to the head of its queue: its owner has acquired a
 * hold, so its wait has become an upgrade (rule 2 of docs/design.md). */
void waitersMoveFirst(struct waiter *waiter);

/* The wait-for graph of the waiters. */
struct waitgraph *waitersGraph(void);

/* Removes every waiter of this lock that has no client, and leaves the keys as they are: they are
 * another node's now. `lock` may be freed. */
void waitersForgetDetached(RedisModuleCtx *ctx, struct lock *lock);

#endif
