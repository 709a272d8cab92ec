/* A pre-check of the search for cycles: whether an owner that the newcomer waits for waits in turn,
 * directly or not, for the newcomer's owner. If there is none, the newcomer closes no cycle.
 *
 * As a rule the request that came last is behind all others, and its owner holds no lock that
 * others want; or only a few requests wait for that lock, and no owner waits for the owners of
 * those. To find that out, each lock with waiters is tested a few times, however many requests wait
 * there and for whatever reason.
 *
 * So the pre-check goes in the opposite direction to cyclesearch.c: from the newcomer to the owners
 * that wait for it, and to the owners that wait for those. Its answer is either "no owner" or
 * "maybe one".
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
    CYCLEPRECHECK_NEWCOMER,  /* whether the newcomer waits for it: in each of its positions */
    CYCLEPRECHECK_POSITIONS, /* which requests are behind its positions */
    CYCLEPRECHECK_HOLDS      /* whether it holds locks that others wait for: each of those */
};

struct cycleprecheck {
    struct waitgraph *graph;
    const struct waitRequest *newcomer;
    struct cycleprecheckHolders holders;
    enum cycleprecheckStage stage;
    struct position *position; /* of the newcomer, in CYCLEPRECHECK_NEWCOMER */
    size_t next, count, looks;
    /* One request of each owner; the first is the newcomer. */
    const struct waitRequest *owners[CYCLEPRECHECK_MOST_OWNERS];
    enum cycleprecheckAnswer answer;
};

/* Begins the pre-check of this newcomer, which is in its queues, but not in the graph. */
void cycleprecheckBegin(struct cycleprecheck *asked, struct waitgraph *graph,
                        const struct waitRequest *newcomer, struct cycleprecheckHolders holders);

/* About how many locks are to be tested for the next owner; 0 while an owner is being examined. */
size_t cycleprecheckCost(const struct cycleprecheck *asked);

/* Whether an owner is being examined. */
bool cycleprecheckIsAsking(const struct cycleprecheck *asked);

/* Takes one step: tests one lock, as a rule. Sets `answer`, which must have been
 * CYCLEPRECHECK_CONTINUES. */
void cycleprecheckContinue(struct cycleprecheck *asked);

/* To be called before this request, which is in the graph, leaves it. */
void cycleprecheckLeave(struct cycleprecheck *asked, const struct waitRequest *request);

#endif
