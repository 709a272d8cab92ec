/* Whether one more wait closes a cycle (docs/design.md, "Cycles").
 *
 * The nodes are owners. An owner that waits in a queue waits for
 *   - every other owner whose hold of that lock conflicts with what it asks for, and
 *   - every other owner that stands ahead of it there and conflicts with it.
 * A cycle of waits never ends by itself, and is closed by a new wait, but for the cases that
 * docs/design.md names: so one look is taken, a moment after a request has begun to wait.
 *
 * An owner with several positions in a queue stands where the first of them is. One that waits for
 * several keys waits for nobody in the queue of a key that it holds already.
 *
 * In each queue the search looks at the holders, the ties, and of all others at one at most: the
 * last writer ahead of a reader. Ties only when no holder is left to follow, and neither for longer
 * than it takes to find out that nobody waits for the asker (waitedfor.h). Who holds a lock is not
 * known here; the search asks.
 *
 * A search works in steps. Between two calls requests may leave the graph; none enters it. So only
 * edges from an owner that has left a queue, and waits on, may be others than the search has seen:
 * then it begins anew (waitsearchLeave, waitsearchMove).
 */
#ifndef LOCK_WAITSEARCH_H
#define LOCK_WAITSEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/searchreach.h"
#include "core/searchstate.h"
#include "core/waitgraph.h"
#include "core/waitpath.h"
#include "core/waitqueue.h"

/* What a search has cost and found. */
struct waitsearchFound {
    enum waitsearchResult result;
    size_t steps;
    struct waitpathCycle *cycle; /* of WAITSEARCH_CYCLE: the caller's, to be freed with memFree */
};

/* Begins to look whether the wait of `asker`, a newcomer that stands in its queues, closes a cycle.
 * The search is `graph->search` until waitsearchEnd; there is one at a time. It takes no more than
 * `most` steps: to look at a holder, a tie, a position is one; for waitsearchEachRequest the caller
 * says. For each lock that it asks about it takes one more; these are at most as many again. */
void waitsearchBegin(struct waitgraph *graph, const struct request *asker,
                     const struct waitsearchAsked *asked, size_t most);

/* Takes some `steps` steps. Returns whether the search is over. */
bool waitsearchGoOn(struct waitgraph *graph, size_t steps);

/* Whether the search that has begun is over: it has found something, or its asker has left. */
bool waitsearchIsOver(const struct waitgraph *graph);

/* Ends the search, and says what it has found. */
struct waitsearchFound waitsearchEnd(struct waitgraph *graph);

/* Like waitgraphEnter, for a request that is not searched from. */
void waitsearchEnter(struct waitgraph *graph, struct request *request);

/* Like waitgraphLeave, to be called in its place where there may be a search. */
void waitsearchLeave(struct waitgraph *graph, struct request *request);

/* This position is about to move to the head of its queue. */
void waitsearchMove(struct waitgraph *graph, const struct position *position);

#endif
