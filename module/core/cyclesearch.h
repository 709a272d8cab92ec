/* Whether one more wait closes a cycle (docs/design.md, "Cycles").
 *
 * The nodes are owners. An owner that waits in a queue waits for
 *   - every other owner whose hold of that lock conflicts with what it requests, and
 *   - every other owner that is ahead of it in that queue and conflicts with it.
 *
 * A cycle of waits never ends by itself. It is closed by a new wait, except in the cases that
 * docs/design.md names. So one search is made for each request, a moment after it began to wait.
 * This request is the *asker* of the search.
 *
 * If an owner has several positions in a queue, only the first of them is used. An owner that waits
 * for several keys waits for no other owner in the queue of a key that it already holds.
 *
 * In each queue the search visits the holders, the ties (waitgraph.h), and at most one other
 * position: the last writer ahead of a reader. It visits ties only when there are no more holders
 * to follow. It ends as soon as a pre-check has found that no owner waits for the asker
 * (cycleprecheck.h). The search does not know the holders of a lock, and uses callbacks to find
 * them.
 *
 * A search works in steps. Between two calls requests may leave the graph. If a request enters the
 * graph, the search restarts. So the search can only have seen edges that no longer exist if an
 * owner has left a queue and waits elsewhere. In that case it restarts too (cyclesearchLeave,
 * cyclesearchMove).
 */
#ifndef LOCK_CYCLESEARCH_H
#define LOCK_CYCLESEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cyclepath.h"
#include "core/cyclereach.h"
#include "core/cyclestate.h"
#include "core/waitgraph.h"
#include "core/waitqueue.h"

/* The result and the cost of a search. */
struct cyclesearchFound {
    enum cyclesearchResult result;
    size_t steps;
    /* Only for CYCLESEARCH_CYCLE. The caller must free it with memFree. */
    struct cyclepathCycle *cycle;
};

/* Begins to search whether the wait of `asker`, a newcomer that is in its queues, closes a cycle.
 * The search is `graph->search` until cyclesearchEnd. There is only one search at a time. It takes
 * at most `most` steps. A visit of a holder, a tie or a position is one step;
 * cyclesearchEachRequest counts as many steps as its caller gives. The pre-check takes one more
 * step for each lock that it tests, and at most `most` steps in addition. */
void cyclesearchBegin(struct waitgraph *graph, const struct waitRequest *asker,
                      const struct cyclesearchAsked *asked, size_t most);

/* Takes about `steps` steps. Returns whether the search has ended. */
bool cyclesearchContinue(struct waitgraph *graph, size_t steps);

/* Whether the current search has ended, because it has a result or its asker no longer waits. */
bool cyclesearchHasEnded(const struct waitgraph *graph);

/* Ends the search, frees it, and returns what it has found. */
struct cyclesearchFound cyclesearchEnd(struct waitgraph *graph);

/* As waitgraphEnter, for a request from which no search is made. A current search restarts. */
void cyclesearchEnter(struct waitgraph *graph, struct waitRequest *request);

void cyclesearchForget(struct cyclesearch *search, struct waitRequest *request);

/* As waitgraphLeave. To be called instead of waitgraphLeave if a search may be in progress. */
static inline void cyclesearchLeave(struct waitgraph *graph, struct waitRequest *request) {
    if (graph->search) {
        cyclesearchForget(graph->search, request);
    }
    waitgraphLeave(graph, request);
}

/* To be called before this position moves to the head of its queue. */
void cyclesearchMove(struct waitgraph *graph, const struct position *position);

#endif
