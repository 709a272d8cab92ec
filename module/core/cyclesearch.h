/* Whether one more wait closes a cycle (docs/design.md, "Cycles").
 *
 * The nodes are owners. An owner that waits in a queue waits for
 *   - every other owner whose hold of that lock conflicts with what it requests, and
 *   - every other owner that is ahead of it there and conflicts with it.
 *
 * A cycle of waits never ends by itself. It is closed by a new wait, except in the cases that
 * docs/design.md names. So one search is made for each request, a moment after it began to wait;
 * that request is the *asker* of the search.
 *
 * An owner with several positions in a queue counts at the first of them. One that waits for
 * several keys waits for no other owner in the queue of a key that it already holds.
 *
 * In each queue the search visits the holders, the ties, and at most one other position: the last
 * writer ahead of a reader. It visits ties only if there are no more holders to follow, and it ends
 * as soon as a pre-check has found that no owner waits for the asker (cycleprecheck.h). It does not
 * know who holds a lock, and calls back for that.
 *
 * A search works in steps. Between two calls requests may leave the graph; one that enters it makes
 * the search restart. So only the edges of an owner that has left a queue, and waits elsewhere, may
 * differ from what the search has seen: then it restarts (cyclesearchLeave, cyclesearchMove).
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

/* What a search has cost and found. */
struct cyclesearchFound {
    enum cyclesearchResult result;
    size_t steps;
    /* Only for CYCLESEARCH_CYCLE. Belongs to the caller, to be freed with memFree. */
    struct cyclepathCycle *cycle;
};

/* Begins to search whether the wait of `asker`, a newcomer that is in its queues, closes a cycle.
 * The search is `graph->search` until cyclesearchEnd; there is one at a time. It takes at most
 * `most` steps: one to visit a holder, a tie or a position; for cyclesearchEachRequest as many as
 * the caller gives. The pre-check takes one more for each lock that it tests: at most as many
 * again. */
void cyclesearchBegin(struct waitgraph *graph, const struct waitRequest *asker,
                      const struct cyclesearchAsked *asked, size_t most);

/* Takes about `steps` steps. Returns whether the search has ended. */
bool cyclesearchContinue(struct waitgraph *graph, size_t steps);

/* Whether the current search has ended: it has a result, or its asker has left. */
bool cyclesearchHasEnded(const struct waitgraph *graph);

/* Ends the search, frees it, and returns what it has found. */
struct cyclesearchFound cyclesearchEnd(struct waitgraph *graph);

/* As waitgraphEnter, for a request from which no search is made. A current search restarts. */
void cyclesearchEnter(struct waitgraph *graph, struct waitRequest *request);

/* As waitgraphLeave, and to be called instead of it where there may be a search. */
void cyclesearchLeave(struct waitgraph *graph, struct waitRequest *request);

/* To be called before this position moves to the head of its queue. */
void cyclesearchMove(struct waitgraph *graph, const struct position *position);

#endif
