/* A pre-check of the search for cycles: whether an owner that the newcomer waits for waits in turn,
 * directly or not, for the newcomer's owner. If there is none, the newcomer closes no cycle.
 *
 * As a rule the request that came last is behind all others, and its owner holds no lock that
 * others want; or only a few requests wait for that lock, and no owner waits for the owners of
 * those. To find that out, each lock with waiters is tested a few times, however many requests wait
 * there and for whatever reason.
 *
 * So the pre-check goes in the opposite direction to waitsearch.c: from the newcomer to the owners
 * that wait for it, and to the owners that wait for those. Its answer is either "no owner" or
 * "maybe one".
 *
 * It works in steps, between which requests may leave the graph.
 */
#ifndef LOCK_WAITEDFOR_H
#define LOCK_WAITEDFOR_H

#include <stdbool.h>
#include <stddef.h>

#include "core/rules.h"
#include "core/waitgraph.h"
#include "core/waitqueue.h"

/* Whether the owner of this request holds the lock of this queue in a mode that conflicts with
 * `mode`. */
typedef bool (*waitedforIsHolder)(struct waitqueue *queue, enum lockMode mode,
                                  const struct request *request, void *context);

/* At most this many owners are examined. If there are more, the answer is WAITEDFOR_MAYBE. */
#define WAITEDFOR_MOST_OWNERS 32

enum waitedforAnswer {
    WAITEDFOR_GOES_ON,
    WAITEDFOR_NOBODY, /* no cycle */
    WAITEDFOR_MAYBE
};

/* The callback that knows who holds what. */
struct waitedforHolders {
    waitedforIsHolder is_holder;
    void *context;
};

/* What is examined next for an owner. */
enum waitedforStage {
    WAITEDFOR_NEXT_OWNER,
    WAITEDFOR_NEWCOMER,  /* whether the newcomer waits for it: in each of its positions */
    WAITEDFOR_POSITIONS, /* which requests are behind its positions */
    WAITEDFOR_HOLDS      /* whether it holds locks that others wait for: each of those */
};

struct waitedfor {
    struct waitgraph *graph;
    const struct request *newcomer;
    struct waitedforHolders holders;
    enum waitedforStage stage;
    struct position *position; /* of the newcomer, in WAITEDFOR_NEWCOMER */
    size_t next, count, looks;
    /* One request of each owner; the first is the newcomer. */
    const struct request *owners[WAITEDFOR_MOST_OWNERS];
    enum waitedforAnswer answer;
};

/* Begins the pre-check of this newcomer, which is in its queues, but not in the graph. */
void waitedforBegin(struct waitedfor *asked, struct waitgraph *graph,
                    const struct request *newcomer, struct waitedforHolders holders);

/* About how many locks are to be tested for the next owner; 0 while an owner is being examined. */
size_t waitedforCost(const struct waitedfor *asked);

/* Whether an owner is being examined. */
bool waitedforIsAsking(const struct waitedfor *asked);

/* Takes one step: tests one lock, as a rule. Sets `answer`, which must have been
 * WAITEDFOR_GOES_ON. */
void waitedforGoOn(struct waitedfor *asked);

/* To be called before this request, which is in the graph, leaves it. */
void waitedforLeave(struct waitedfor *asked, const struct request *request);

#endif
