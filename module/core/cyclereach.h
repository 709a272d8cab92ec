/* Counts the steps of a search for cycles, and reaches owners. The first four functions are for the
 * callback `holders` of struct cyclesearchAsked, the others for cyclesteps.c. */
#ifndef LOCK_CYCLEREACH_H
#define LOCK_CYCLEREACH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/cyclestate.h"

/* Whether `holders` may take `steps` steps at once. To be called in `holders` before it takes them.
 * If the result is false, `holders` must return without reaching an owner. It is called again,
 * unless the search ends before that. */
bool cyclesearchMayTake(struct cyclesearch *search, size_t steps);

/* To be called in `holders` for each owner that is one of the holders. */
void cyclesearchReach(struct cyclesearch *search, const char *owner, size_t length);

/* As cyclesearchReach, for the only holder of a plain lock. */
void cyclesearchReachAlone(struct cyclesearch *search, const char *owner, size_t length);

/* To be called in `holders`, as the last step, instead of reaching each holder. After that the
 * search calls `is_holder` for the asker and for every request in the graph, and counts `steps`
 * steps for each. This takes fewer steps if a lock has more holders than there are waiters. The
 * requests in the graph are tested only once for a lock and mode, because another test could not
 * find more of them. The asker is tested each time. */
void cyclesearchEachRequest(struct cyclesearch *search, size_t steps);

/* Whether the search has no result yet, and does not have to restart. */
bool searchContinues(const struct cyclesearch *search);

/* Whether searchContinues is true, and no cycle has been found that is being checked. */
bool searchLooks(const struct cyclesearch *search);

/* Counts `count` steps. If the sum exceeds the bound, the search gives up. Returns searchLooks. */
bool searchTakeSteps(struct cyclesearch *search, size_t count);

/* Takes a step of the pre-check (cycleprecheck.h). If the pre-check finds that no owner waits for
 * the asker, the search ends. */
void searchAskOn(struct cyclesearch *search);

/* Takes a step of the pre-check if that is cheaper than the next `steps` steps of the search
 * itself. Returns whether it has taken one. If so, the caller must not take those steps yet. */
bool searchAskFirst(struct cyclesearch *search, size_t steps);

/* What the search has seen of this queue. */
struct waitqueueSeen *searchSeenIn(struct cyclesearch *search, struct waitqueue *queue);

/* Reaches the owner of this request by the edge `search->at`, and counts one step. If it is the
 * asker's owner, a cycle has been found. */
void searchReach(struct cyclesearch *search, const struct waitRequest *request);

/* Whether the owner whose first request is `first` has been reached. */
bool searchHasReached(const struct cyclesearch *search, const struct waitRequest *first);

/* Whether this is the asker's owner. */
bool searchIsAsker(const struct cyclesearch *search, const char *owner, size_t length);

/* In SEARCH_EACH: reaches the owner of this request if the owner holds the lock. */
void searchAskWhetherHolder(struct cyclesearch *search, const struct waitRequest *request);

#endif
