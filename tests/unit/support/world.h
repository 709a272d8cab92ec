/* A small world of locks, holds and waits, without a server: who waits for which lock is said in a
 * line of a test. For the tests of waitgraph.c and cyclesearch.c. */
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

/* All zero is a world in which nobody holds anything or waits. */
struct world {
    struct waitgraph graph;
    struct fakeLock locks[WORLD_LOCKS];
    struct wait waits[WORLD_MOST_WAITS];
    size_t count;
};

/* An ordered one. The owner's bytes stay the caller's. */
struct waitRequest worldRequest(const char *owner, enum lockMode mode);

void worldHolds(struct world *world, const char *owner, enum lockMode mode, size_t lock);

/* Stands at the end of the queue, and is not in the graph. */
struct wait *worldStandsFor(struct world *world, struct waitRequest request, size_t lock);
struct wait *worldStands(struct world *world, const char *owner, enum lockMode mode, size_t lock);

/* Stands at the end of the queue, and is in the graph. */
struct wait *worldWaits(struct world *world, const char *owner, enum lockMode mode, size_t lock);

/* For two locks at once. */
struct wait *worldWaitsMultikeyly(struct world *world, const char *owner, enum lockMode mode,
                                  size_t one, size_t other);

/* A fair request's position whose client is gone. */
struct wait *worldDetached(struct world *world, const char *owner, size_t lock);

/* Granted, cancelled, timed out: it is the same to the graph. */
void worldWaitEnds(struct world *world, struct wait *wait);

void worldAssertNoTies(const struct world *world);

/* Ends every wait, and asserts that graph and queues keep nothing of them. */
void worldEnd(struct world *world);

#endif
