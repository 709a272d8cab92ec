/* Who waits for locks: how a request begins to wait, and what ends the wait.
 *
 * A waiter that has ended is out of every queue at once, and its client is answered before the
 * server sleeps. A hold whose client dies before that is released by the drain: see inflight.h.
 *
 * A fair waiter (discipline FAIR) outlives its client: when the connection closes it is *detached*,
 * and keeps its position for a while. Its position is written down in keys, which this file never
 * touches: what changes is noted, see unwritten.h.
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
#include "waits/acquisition.h"
#include "waits/contended.h"
#include "waits/inflight.h"
#include "waits/waiter.h"

/* A wait is searched from so long after it has begun; one that ends sooner, as most do, costs no
 * search. */
#define WAITERS_SEARCH_DELAY_MS 2

/* How a wait ends without the lock, and what the client is told. */
enum waitersEnding {
    WAITERS_TIMED_OUT,      /* null */
    WAITERS_CANCELLED,      /* null */
    WAITERS_NO_TOKEN,       /* an error: no larger fencing token is left */
    WAITERS_TOO_MANY_HOLDS, /* an error: the hold count would exceed its limit */
    WAITERS_TRY_AGAIN       /* an error: the slot is being moved */
};

/* How a wait is to begin. */
struct waitersStart {
    const struct acquisition *wants;
    RedisModuleString **names; /* of the locks, each once */
    size_t key_count;
    bool at_head;       /* of the queue, for an upgrade (rule 2) */
    struct waiter *own; /* of FAIR: the owner's own position, to be taken over; or NULL */
};

/* Whether this request waits if it has to, in the command of `ctx`. */
bool waitersMayWait(RedisModuleCtx *ctx, const struct acquisition *wants);

/* Begins to wait, in the selected database. RESULT_WAITING: the client of `ctx` is blocked and
 * `*waiter` stands in all queues, as a newcomer: the alarm is set for when it is to be searched
 * from. The caller makes no reply, and sees to it that the locks are watched. Or RESULT_BUSY,
 * RESULT_TOO_MANY_WAITERS (lock.max-waiters): nothing has happened. */
enum result waitersBegin(RedisModuleCtx *ctx, const struct waitersStart *start,
                         struct waiter **waiter);

/* The number of the youngest waiter, 0 if there has been none. */
uint64_t waitersLastNumber(void);

/* How many requests wait, with a client. */
size_t waitersCount(void);

/* The newcomer that came first, or NULL. */
struct waiter *waitersFirstNewcomer(void);

size_t waitersNewcomerCount(void);

/* The newcomer has been searched from, and what it waits for can be part of a cycle from now on. */
void waitersSearched(struct waiter *newcomer);

/* Until when positions of an earlier life are kept, and what time it is. */
struct waitersLife {
    int64_t end_ms, now_ms;
};

/* Makes a detached fair waiter at the head of this lock's queue, for a position of an earlier
 * life. */
void waitersRestore(RedisModuleCtx *ctx, struct lock *lock, const struct fairposition *position,
                    struct waitersLife life);

struct waitersGranted {
    int64_t answer;
    struct inflight *inflight; /* what the answer tells of; the callee's */
    int64_t now_ms;
};

/* The waiter, which has a client, has what it waits for, and is told the answer; by REPLICAS later.
 * It leaves every
 * queue and is gone. */
void waitersGrant(RedisModuleCtx *ctx, struct waiter *waiter, const struct waitersGranted *granted);

/* The wait ends without the lock. The waiter leaves every queue and is gone; a lock whose head it
 * was becomes due. */
void waitersEnd(RedisModuleCtx *ctx, struct waiter *waiter, enum waitersEnding how);

/* Likewise, of a waiter with a client: its wait closes this cycle. The text is the callee's. */
void waitersEndDeadlock(RedisModuleCtx *ctx, struct waiter *waiter, RedisModuleString *cycle);

/* Likewise: the client is sent to another node, by this error of redirectFind. */
void waitersEndRedirected(RedisModuleCtx *ctx, struct waiter *waiter, RedisModuleString *error);

/* The position of a fair waiter without a client is kept for lock.fair-reserve from now; while a
 * quarantine is on, from its end. */
void waitersReserve(RedisModuleCtx *ctx, struct waiter *waiter);

/* The waiter, which waits for one key, moves to the head of its queue: its owner has acquired a hold, so
 * what it waits for has become an upgrade. */
void waitersMoveFirst(struct waiter *waiter);

/* Who of them waits for whom. */
struct waitgraph *waitersGraph(void);

/* Forgets every waiter of this lock that has no client, without a trace in the keys: they are
 * another node's now. `lock` may be gone afterwards. */
void waitersForgetDetached(RedisModuleCtx *ctx, struct lock *lock);

#endif
