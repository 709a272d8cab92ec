/* A small world of locks, holds and waits, without a server. Each hold or wait is one line in a
 * test. For the tests of waitgraph.c and cyclesearch.c. */
#ifndef LOCK_TESTS_WORLD_H
#define LOCK_TESTS_WORLD_H

#include <stdbool.h>
#include <stddef.h>

#include "core/waitgraph.h"
#include "locks.h"

#define WORLD_LOCKS 6
#define WORLD_MOST_WAITS 128

struct wait {
    struct waitRequest request;
    struct position positions[WORLD_LOCKS];
};

/* A lock, the mode in which a request waits for it, and whether its position is at the head. */
struct worldLock {
    enum lockMode mode;
    size_t lock;
    bool at_head;
};

/* All zero is a world without holds and waits. */
struct world {
    struct waitgraph graph;
    struct fakeLock locks[WORLD_LOCKS];
    struct wait waits[WORLD_MOST_WAITS];
    size_t count;
};

/* An ordered request. The owner's bytes belong to the caller. */
struct waitRequest worldRequest(const char *owner);

/* The same for several keys. */
struct waitRequest worldMultikey(const char *owner);

/* A plain lock, and the two sides of a read-write lock. */
struct worldLock worldPlain(size_t lock);
struct worldLock worldToRead(size_t lock);
struct worldLock worldToWrite(size_t lock);

/* To write a lock that the owner and others read. */
struct worldLock worldUpgrade(size_t lock);

/* Adds a position of this request to the queue of the lock. */
void worldEnqueue(struct world *world, struct position *position, struct waitRequest *request,
                  struct worldLock lock);

void worldHolds(struct world *world, const char *owner, enum lockMode mode, size_t lock);

/* Adds a request at the end of the queue, but not to the graph. */
struct wait *worldQueueRequest(struct world *world, struct waitRequest request, enum lockMode mode,
                               size_t lock);
struct wait *worldQueue(struct world *world, const char *owner, enum lockMode mode, size_t lock);

/* Adds a request for both locks, but not to the graph. */
struct wait *worldQueueForBoth(struct world *world, const char *owner, struct worldLock one,
                               struct worldLock other);

/* Adds a request at the end of the queue, and to the graph. */
struct wait *worldWaits(struct world *world, const char *owner, enum lockMode mode, size_t lock);

/* The same for two locks at once; and for two locks in different modes. */
struct wait *worldWaitsForTwo(struct world *world, const char *owner, enum lockMode mode,
                              size_t one, size_t other);
struct wait *worldWaitsForBoth(struct world *world, const char *owner, struct worldLock one,
                               struct worldLock other);

/* Adds the position of a fair request whose client has disconnected. */
struct wait *worldDetached(struct world *world, const char *owner, size_t lock);

/* Ends a wait, for whatever reason: to the graph, a grant, a cancellation and a time-out are the
 * same. */
void worldWaitEnds(struct world *world, struct wait *wait);

void worldAssertNoTies(const struct world *world);

/* Ends every wait, and asserts that nothing of them is left in the graph and the queues. */
void worldEnd(struct world *world);

#endif
