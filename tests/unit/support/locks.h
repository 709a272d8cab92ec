/* Locks without a server: a queue, and the holds with their owners and modes. For the tests of
 * cyclesearch.c, which calls back for the holds. */
#ifndef LOCK_TESTS_LOCKS_H
#define LOCK_TESTS_LOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/cyclesearch.h"
#include "core/rules.h"
#include "core/waitqueue.h"

#define LOCKS_MOST_HOLDS 24

/* The owner's bytes belong to the caller. */
struct fakeHold {
    const char *owner;
    size_t length;
    enum lockMode mode;
};

/* All zero is a free lock. */
struct fakeLock {
    struct waitqueue queue;
    struct fakeHold holds[LOCKS_MOST_HOLDS];
    size_t held;
};

struct fakeLock *lockOfQueue(struct waitqueue *queue);

void lockHold(struct fakeLock *lock, const char *owner, size_t length, enum lockMode mode);

/* Removes one hold of this owner in this mode; does nothing if there is none. */
void lockRelease(struct fakeLock *lock, const char *owner, size_t length, enum lockMode mode);

/* Whether the owner has a hold that conflicts with another owner's request for `mode`. */
bool lockIsInTheWay(const struct fakeLock *lock, const char *owner, size_t length,
                    enum lockMode mode);

/* Whether the owner holds it as a plain lock. */
bool lockIsPlainOf(const struct fakeLock *lock, const char *owner, size_t length);

/* Four sets of callbacks for a search, which must all lead to the same result. The callbacks report
 * the holders from the holds, or by testing the requests in the graph. To the pre-check they answer
 * whether an owner is a holder; or always that it may be one ("unproven"): then the pre-check
 * proves nothing, and the search follows all edges to the end. `calls` counts the calls; it may be
 * NULL. */
enum {
    LOCKS_BY_HOLDS,
    LOCKS_BY_REQUESTS,
    LOCKS_BY_HOLDS_UNPROVEN,
    LOCKS_BY_REQUESTS_UNPROVEN,
    LOCKS_WAYS
};

struct cyclesearchAsked lockCallbacks(int way, size_t *calls);

/* How a search is made: with which callbacks; in how many steps at most; how many steps in each
 * call, 0 for all in one call; and a function that is called between two calls. */
struct lockSearch {
    int way;
    size_t *calls;
    size_t most, slice;
    void (*between)(void *data);
    void *data;
};

/* Makes a whole search. */
struct cyclesearchFound lockSearch(struct waitgraph *graph, const struct waitRequest *asker,
                                   const struct lockSearch *how);

#endif
