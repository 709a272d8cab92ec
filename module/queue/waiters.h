/* The waiters. Begins and ends the waits of requests for locks.
 *
 * When a wait has ended, the waiter is removed from all queues at once, and the server writes the
 * reply to its client before it sleeps. If the connection closes before that, the drain releases
 * the hold (see pendingreply.h).
 *
 * A fair waiter (discipline FAIR) outlives its client. When the connection closes, the waiter
 * becomes *detached*, and keeps its position for a while. Its position is stored in keys, which
 * this file never writes. Changes of the position are recorded as pending (see unwritten.h).
 */
#ifndef LOCK_WAITERS_H
#define LOCK_WAITERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocking/blocked.h"
#include "common/reply.h"
#include "core/waitgraph.h"
#include "core/waitqueue.h"
#include "ledger/pendingreply.h"
#include "redismodule.h"
#include "waits/contended.h"
#include "waits/request.h"
#include "waits/waiter.h"

/* How long after the beginning of a wait a search for cycles is made from it. Most waits end
 * sooner, and no search is made. */
#define WAITERS_SEARCH_DELAY_MS 2

/* How a wait ends if the lock is not acquired, and what the client receives. */
enum waitersEnding {
    WAITERS_TIMED_OUT,      /* null */
    WAITERS_CANCELLED,      /* null */
    WAITERS_NO_TOKEN,       /* an error: no larger fencing token is left */
    WAITERS_TOO_MANY_HOLDS, /* an error: the hold count would exceed its limit */
    WAITERS_TRY_AGAIN       /* an error: the slot is being moved */
};

/* How a wait for one lock is to begin. */
struct waitersKey {
    RedisModuleString *name;
    enum lockMode mode;
    bool at_head; /* at the head of the queue, for an upgrade (rule 2 of docs/design.md) */
};

/* How a wait is to begin. */
struct waitersStart {
    const struct request *wants;
    const struct waitersKey *keys; /* no lock twice */
    size_t key_count;
    size_t in_the_way;  /* the index of a key that does not fit now */
    struct waiter *own; /* for FAIR, the owner's waiter whose position is taken over, or NULL */
};

/* Whether this request may wait, in the command of `ctx`. */
bool waitersMayWait(RedisModuleCtx *ctx, const struct request *wants);

/* Begins to wait, in the selected database. With RESULT_WAITING the client of `ctx` is blocked,
 * `*waiter` is in all queues as a newcomer, and the alarm is set for the search from it. The caller
 * must not reply, and must set the timers of the locks. Returns RESULT_BUSY if the client must not
 * wait, and RESULT_TOO_MANY_WAITERS if lock.max-waiters is reached. In both cases nothing has
 * changed. */
enum result waitersBegin(RedisModuleCtx *ctx, const struct waitersStart *start,
                         struct waiter **waiter);

/* The number of the latest waiter, 0 if there has been none. */
uint64_t waitersLastNumber(void);

/* How many requests with a client wait. */
size_t waitersCount(void);

/* The oldest newcomer, or NULL. */
struct waiter *waitersFirstNewcomer(void);

/* How many newcomers there are. */
size_t waitersNewcomerCount(void);

/* To be called when a search has been made from the newcomer. From now on its wait can be part of a
 * cycle. */
void waitersSearched(struct waiter *newcomer);

/* The time until which positions that were read from the keys are kept, and the time now, in unix
 * ms. */
struct waitersLife {
    int64_t end_ms, now_ms;
};

/* Creates a detached fair waiter at the head of this lock's queue, for a position that was read
 * from the keys. */
void waitersRestore(RedisModuleCtx *ctx, struct lock *lock, const struct fairposition *position,
                    struct waitersLife life);

struct waitersGranted {
    int64_t answer;
    struct pendingreply *pendingreply; /* the holds that the reply reports; the callee frees it */
    int64_t now_ms;
};

/* Ends the wait of a waiter with a client, which has acquired what it waits for. The client
 * receives the reply; with REPLICAS, when the replicas have acknowledged the grant. The waiter is
 * removed from every queue and freed. */
void waitersGrant(RedisModuleCtx *ctx, struct waiter *waiter, const struct waitersGranted *granted);

/* Ends the wait without a grant. The waiter is removed from every queue and freed. If it was the
 * first in the queue of a lock, the lock becomes due. */
void waitersEnd(RedisModuleCtx *ctx, struct waiter *waiter, enum waitersEnding how);

/* As waitersEnd, for a waiter with a client whose wait closes this cycle. The callee frees the
 * text. */
void waitersEndDeadlock(RedisModuleCtx *ctx, struct waiter *waiter, RedisModuleString *cycle);

/* As waitersEnd. The client is redirected to another node by this error text of redirectFind, which
 * remains the caller's. */
void waitersEndRedirected(RedisModuleCtx *ctx, struct waiter *waiter, RedisModuleString *error);

/* Reserves the position of a fair waiter without a client for lock.fair-reserve, counted from now
 * or, during a quarantine, from the end of the quarantine. */
void waitersReserve(RedisModuleCtx *ctx, struct waiter *waiter);

/* Moves the position to the head of its queue. To be called when its owner has acquired a hold,
 * because its wait for this lock has become an upgrade (rule 2 of docs/design.md). */
void waitersMoveFirst(RedisModuleCtx *ctx, struct position *position);

/* To be called when a waiter for several keys is known not to fit because of this one of its keys.
 * Where it waits as a reader, but for another key, it stands aside for requests behind it. */
void waitersNoteInTheWay(struct waiter *waiter, size_t index);

/* The wait-for graph of the waiters. */
struct waitgraph *waitersGraph(void);

/* Removes every waiter of this lock that has no client. Does not change the keys, because another
 * node serves them now. `lock` may be freed. */
void waitersForgetDetached(RedisModuleCtx *ctx, struct lock *lock);

#endif
