/* Locks without a server: a queue, and who holds the lock in which mode. For the tests of
 * waitgraph.c, which asks whoever knows the holds. */
#ifndef LOCK_TESTS_LOCKS_H
#define LOCK_TESTS_LOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/cyclesearch.h"
#include "core/rules.h"
#include "core/waitqueue.h"

#define LOCKS_MOST_HOLDS 24

/* The owner's bytes stay the caller's. */
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

/* Takes one hold of this owner in this mode away; without any, nothing happens. */
void lockRelease(struct fakeLock *lock, const char *owner, size_t length, enum lockMode mode);

/* Whether the owner has a hold that keeps somebody else's request for `mode` waiting. */
bool lockIsInTheWay(const struct fakeLock *lock, const char *owner, size_t length,
                    enum lockMode mode);

/* Whether the owner holds it as a plain lock. */
bool lockIsPlainOf(const struct fakeLock *lock, const char *owner, size_t length);

/* Four ways to ask, which mean the same: the holders are told by going through the holds, or
 * through the requests in the graph; and of one owner it is said whether it is a holder, or that it
 * may be: then nothing can be proven, and all ways are gone to their end. `context` is a size_t
 * that counts the calls, or NULL. */
enum {
    LOCKS_BY_HOLDS,
    LOCKS_BY_REQUESTS,
    LOCKS_BY_HOLDS_UNPROVEN,
    LOCKS_BY_REQUESTS_UNPROVEN,
    LOCKS_WAYS
};

struct cyclesearchAsked lockAsked(int way, size_t *calls);

/* How a search is made: a way of the above; in how many steps at most; how many at a time, 0 is all
 * at once; and what happens between two of these. */
struct lockSearch {
    int way;
    size_t *calls;
    size_t most, slice;
    void (*between)(void *data);
    void *data;
};

/* A whole search. */
struct cyclesearchFound lockSearch(struct waitgraph *graph, const struct waitRequest *asker,
                                   const struct lockSearch *how);

#endif
