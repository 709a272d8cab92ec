/* Counts the steps of a search for cycles, and reaches owners. The first four functions are for the
 * callback `holders` of struct cyclesearchAsked, the others for cyclesteps.c. */
#ifndef LOCK_CYCLEREACH_H
#define LOCK_CYCLEREACH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/cyclestate.h"

/* To be called in `holders` before it takes that many steps at once: whether it may take them. If
 * not, `holders` returns without having reached an owner, and is called again unless the search has
 * ended by then. */
bool cyclesearchMayTake(struct cyclesearch *search, size_t steps);

/* To be called in `holders`: this owner is one of the holders. */
void cyclesearchReach(struct cyclesearch *search, const char *owner, size_t length);

/* The same, but no other owner holds the lock: it is a plain lock. */
void cyclesearchReachAlone(struct cyclesearch *search, const char *owner, size_t length);

/* To be called in `holders`, as the last step: the search calls `is_holder` for the asker, and for
 * every request in the graph, and counts `steps` steps for each. This takes fewer steps if a lock
 * has more holders than there are waiters. The requests in the graph are tested once for a lock and
 * mode, as later no others can be found; the asker is tested each time. */
void cyclesearchEachRequest(struct cyclesearch *search, size_t steps);

/* Whether the search has no result yet, and need not restart. */
bool searchContinues(const struct cyclesearch *search);

/* The same, and it has not found a cycle that is being checked. */
bool searchLooks(const struct cyclesearch *search);

/* Counts `count` steps. If that exceeds the bound, the search gives up. Returns searchLooks. */
bool searchTakeSteps(struct cyclesearch *search, size_t count);

/* Takes a step of the pre-check (cycleprecheck.h). If that finds that no owner waits for the asker,
 * the search ends. */
void searchAskOn(struct cyclesearch *search);

/* Takes such a step if that is cheaper than the next `steps` steps of the search itself. Returns
 * whether it took one; then those steps are not to be taken yet. */
bool searchAskFirst(struct cyclesearch *search, size_t steps);

/* What the search has seen of this queue. */
struct waitqueueSeen *searchSeenIn(struct cyclesearch *search, struct waitqueue *queue);

/* Reaches the owner of this request by the edge `search->at`, as one step. If it is the asker's
 * owner, a cycle is found. */
void searchReach(struct cyclesearch *search, const struct waitRequest *request);

/* Whether the owner whose first request this is has been reached. */
bool searchHasReached(const struct cyclesearch *search, const struct waitRequest *first);

/* Whether this is the asker's owner. */
bool searchIsAsker(const struct cyclesearch *search, const char *owner, size_t length);

/* In SEARCH_EACH: tests whether the owner of this request holds the lock, and if so reaches it. */
void searchAskWhetherHolder(struct cyclesearch *search, const struct waitRequest *request);

#endif
