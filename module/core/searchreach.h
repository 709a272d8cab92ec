/* Steps of a search for cycles, and the owners that it reaches. The first four functions are for the
 * `holders` of struct waitsearchAsked, the others for searchsteps.c.
 */
#ifndef LOCK_SEARCHREACH_H
#define LOCK_SEARCHREACH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/searchstate.h"

/* Within `holders`, before that many steps at once: whether to take them. If not, `holders` returns
 * without having reached anybody, and is called again unless the search is over by then. */
bool waitsearchMayTake(struct waitsearch *search, size_t steps);

/* Within `holders`: this owner is one of them. */
void waitsearchReach(struct waitsearch *search, const char *owner, size_t length);

/* The same, and nobody else holds the lock: a plain lock. */
void waitsearchReachAlone(struct waitsearch *search, const char *owner, size_t length);

/* Within `holders`, as the last thing: the search asks `is_holder` of the asker, and of every request
 * in the graph; `steps` steps each. The shorter way when a lock has more holders than there are
 * waiters. Those are asked once for a lock and mode, as no others can be news later; the asker is
 * asked each time. */
void waitsearchEachRequest(struct waitsearch *search, size_t steps);

/* Whether it has found nothing yet, and need not begin anew. */
bool searchGoesOn(const struct waitsearch *search);

/* The same, and it has not come by a cycle, which is being checked. */
bool searchLooks(const struct waitsearch *search);

/* Counts `count` steps. Returns whether the search still looks for a cycle: not past its bound. */
bool searchTakeSteps(struct waitsearch *search, size_t count);

/* One step on the way to know that nobody waits for the asker: then the search is over. */
void searchAskOn(struct waitsearch *search);

/* Whether such a step is cheaper than the next `steps` of the search itself: then it is taken. */
bool searchAskFirst(struct waitsearch *search, size_t steps);

/* What it has seen of this queue. */
struct waitqueueSeen *searchSeenIn(struct waitsearch *search, struct waitqueue *queue);

/* Reaches the owner of this request, from `search->at`. If that is the asker, a cycle is found. */
void searchReach(struct waitsearch *search, const struct request *request);

/* Whether the owner with this first request has been reached. */
bool searchHasReached(const struct waitsearch *search, const struct request *first);

/* Whether this is the asker's owner. */
bool searchIsAsker(const struct waitsearch *search, const char *owner, size_t length);

/* Of the holders of a lock, in SEARCH_EACH: asks whether the owner of this request is one. */
void searchAskWhetherHolder(struct waitsearch *search, const struct request *request);

#endif
