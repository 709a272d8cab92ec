/* Requests that do not wait yet in the world of world.h, and what a search from them finds. */
#ifndef LOCK_TESTS_NEWREQUEST_H
#define LOCK_TESTS_NEWREQUEST_H

#include <stddef.h>

#include "core/cyclesearch.h"
#include "world.h"

#define NEWREQUEST_NO_LIMIT SIZE_MAX

/* A request that is going to wait. */
struct newRequest {
    struct waitRequest request;
    struct worldLock locks[2];
    size_t count;
};

struct newRequest newrequestOf(const char *owner, enum lockMode mode, size_t lock);

/* One that is added at the head, as an upgrade is. */
struct newRequest newrequestFirst(const char *owner, enum lockMode mode, size_t lock);

struct newRequest newrequestFair(const char *owner, size_t lock);

/* One for two locks at once. */
struct newRequest newrequestForBoth(const char *owner, struct worldLock one,
                                    struct worldLock other);

/* Adds the request as a newcomer, makes a whole search from it, and removes it again. `way`: see
 * locks.h. */
enum cyclesearchResult newrequestSearch(struct world *world, const struct newRequest *new_request,
                                        size_t *steps, int way, size_t *calls,
                                        struct cyclepathCycle **cycle);

/* Asserts that the request would close this cycle, in each way of locks.h. "a 0 b, b 1< a": a waits
 * for lock 0, which b holds, and b waits for lock 1 behind a. */
void newrequestAssertCycle(struct world *world, struct newRequest new_request, const char *wanted);

void newrequestAssertNoCycle(struct world *world, struct newRequest new_request);

/* The same for a wait that is in its queues already, but not in the graph. */
void newrequestAssertCycleOf(struct world *world, const struct wait *newcomer, const char *wanted);

#endif
