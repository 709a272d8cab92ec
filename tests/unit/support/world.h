/* A small world of locks, holds and waits, without a server. Each hold or wait is one line in a
 * test. For the tests of waitgraph.c and cyclesearch.c. */
#ifndef LOCK_TESTS_WORLD_H
#define LOCK_TESTS_WORLD_H

#include <stddef.h>

#include "core/waitgraph.h"
#include "locks.h"

#define WORLD_LOCKS 6
#define WORLD_MOST_WAITS 128

struct wait {
    struct waitRequest request;
    struct position positions[WORLD_LOCKS];
};

/* All zero is a world without holds and waits. */
struct world {
    struct waitgraph graph;
    struct fakeLock locks[WORLD_LOCKS];
    struct wait waits[WORLD_MOST_WAITS];
    size_t count;
};

/* An ordered request. The owner's bytes belong to the caller. */
struct waitRequest worldRequest(const char *owner, enum lockMode mode);

void worldHolds(struct world *world, const char *owner, enum lockMode mode, size_t lock);

/* Adds a request at the end of the queue, but not to the graph. */
struct wait *worldQueueRequest(struct world *world, struct waitRequest request, size_t lock);
struct wait *worldQueue(struct world *world, const char *owner, enum lockMode mode, size_t lock);

/* Adds a request at the end of the queue, and to the graph. */
struct wait *worldWaits(struct world *world, const char *owner, enum lockMode mode, size_t lock);

/* The same for two locks at once. */
struct wait *worldWaitsForTwo(struct world *world, const char *owner, enum lockMode mode,
                              size_t one, size_t other);

/* Adds the position of a fair request whose client has disconnected. */
struct wait *worldDetached(struct world *world, const char *owner, size_t lock);

/* Ends a wait, for whatever reason: to the graph, a grant, a cancellation and a time-out are the
 * same. */
void worldWaitEnds(struct world *world, struct wait *wait);

void worldAssertNoTies(const struct world *world);

/* Ends every wait, and asserts that nothing of them is left in the graph and the queues. */
void worldEnd(struct world *world);

#endif
