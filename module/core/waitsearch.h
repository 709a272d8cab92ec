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
 */
#ifndef LOCK_WAITSEARCH_H
#define LOCK_WAITSEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/rules.h"
#include "core/waitedfor.h"
#include "core/waitgraph.h"
#include "core/waitpath.h"
#include "core/waitqueue.h"

struct waitsearch;

/* What the search asks of whoever knows the holds. */
struct waitsearchAsked {
    /* Tells the search, by waitsearchReach, which owners hold the lock of this queue in a mode that
     * conflicts with `mode`. */
    void (*holders)(struct waitsearch *search, struct waitqueue *queue, enum lockMode mode,
                    void *context);
    waitedforIsHolder is_holder;
    void *context;
};

enum waitsearchResult {
    WAITSEARCH_NO_CYCLE,
    WAITSEARCH_CYCLE,  /* `cycle` tells it, the asker first */
    WAITSEARCH_GAVE_UP /* more than the given number of steps would have been needed */
};

/* What a search may cost and has cost, and what it has found. */
struct waitsearchFound {
    size_t steps; /* before: the most that it may take; after: those that it has taken */
    struct waitpathCycle *cycle; /* of WAITSEARCH_CYCLE: the caller's, to be freed with memFree */
};

/* Whether the wait of `asker` closes a cycle: a newcomer, which stands in its queues. Takes no more
 * than `found->steps` steps: to look at a holder, a tie, a position is one; for waitsearchEachRequest the
 * caller says. Those that it has taken include one for each lock that it has asked about; these are at
 * most as many again. */
enum waitsearchResult waitsearchFind(struct waitgraph *graph, const struct request *asker,
                                     const struct waitsearchAsked *asked,
                                     struct waitsearchFound *found);

/* Within `holders`, before that many steps at once: whether to take them. If not, `holders` returns
 * without having told anybody, and is called again unless the search is over by then. */
bool waitsearchMayTake(struct waitsearch *search, size_t steps);

/* Within `holders`: this owner is one of them. */
void waitsearchReach(struct waitsearch *search, const char *owner, size_t length);

/* Likewise, and nobody else holds the lock: a plain lock. */
void waitsearchReachAlone(struct waitsearch *search, const char *owner, size_t length);

/* Within `holders`: calls `visit` for the asker, and for every request in the graph; so
 * many steps each. The shorter way when a lock has more holders than there are waiters. Asked for
 * the same once more, as happens when the asker has been looked from only, it visits the asker. */
void waitsearchEachRequest(struct waitsearch *search, size_t steps,
                           void (*visit)(struct waitsearch *search, const struct request *request,
                                         void *context),
                           void *context);

#endif
