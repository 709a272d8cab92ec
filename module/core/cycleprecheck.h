/* A pre-check of the search for cycles. It checks whether any owner that the newcomer waits for
 * itself waits, directly or not, for the newcomer's owner. If there is no such owner, the newcomer
 * closes no cycle.
 *
 * Usually the latest request is behind all others, and no other owner waits for a lock that its
 * owner holds. Or only a few requests wait for such a lock, and no owner waits for the owners of
 * these requests. To determine this, each lock with waiters is tested a few times, independently of
 * the number of requests that wait for the lock.
 *
 * So the pre-check follows the waits in the opposite direction to cyclesearch.c. It begins with the
 * owners that wait for the newcomer's owner, and continues with the owners that wait for those. Its
 * answer is either "no owner" or "maybe one".
 *
 * It works in steps, between which requests may leave the graph.
 */
#ifndef LOCK_CYCLEPRECHECK_H
#define LOCK_CYCLEPRECHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "core/rules.h"
#include "core/waitgraph.h"
#include "core/waitqueue.h"

/* Whether the owner of this request holds the lock of this queue in a mode that conflicts with
 * `mode`. */
typedef bool (*cycleprecheckIsHolder)(struct waitqueue *queue, enum lockMode mode,
                                      const struct waitRequest *request, void *context);

/* At most this many owners are examined. If there are more, the answer is CYCLEPRECHECK_MAYBE. */
#define CYCLEPRECHECK_MOST_OWNERS 32

enum cycleprecheckAnswer {
    CYCLEPRECHECK_CONTINUES,
    CYCLEPRECHECK_NOBODY, /* no cycle */
    CYCLEPRECHECK_MAYBE
};

/* The callback that knows who holds what. */
struct cycleprecheckHolders {
    cycleprecheckIsHolder is_holder;
    void *context;
};

/* What is examined next for an owner. */
enum cycleprecheckStage {
    CYCLEPRECHECK_NEXT_OWNER,
    CYCLEPRECHECK_NEWCOMER,  /* for each position of the newcomer, whether it waits for the owner */
    CYCLEPRECHECK_POSITIONS, /* which requests are behind the owner's positions */
    CYCLEPRECHECK_HOLDS      /* for each lock with waiters, whether the owner holds it */
};

struct cycleprecheck {
    struct waitgraph *graph;
    const struct waitRequest *newcomer;
    struct cycleprecheckHolders holders;
    enum cycleprecheckStage stage;
    struct position *position; /* of the newcomer, in CYCLEPRECHECK_NEWCOMER */
    size_t next, count, looks;
    /* One request of each owner. The first one is the newcomer. */
    const struct waitRequest *owners[CYCLEPRECHECK_MOST_OWNERS];
    enum cycleprecheckAnswer answer;
};

/* Begins the pre-check of this newcomer, which is in its queues, but not in the graph. */
void cycleprecheckBegin(struct cycleprecheck *asked, struct waitgraph *graph,
                        const struct waitRequest *newcomer, struct cycleprecheckHolders holders);

/* About how many locks must be tested for the next owner; 0 while an owner is being examined. */
size_t cycleprecheckCost(const struct cycleprecheck *asked);

/* Whether an owner is being examined. */
bool cycleprecheckIsAsking(const struct cycleprecheck *asked);

/* Takes one step, which usually tests one lock. Sets `answer`, which must be
 * CYCLEPRECHECK_CONTINUES before the call. */
void cycleprecheckContinue(struct cycleprecheck *asked);

/* To be called before this request, which is in the graph, leaves it. */
void cycleprecheckLeave(struct cycleprecheck *asked, const struct waitRequest *request);

#endif
