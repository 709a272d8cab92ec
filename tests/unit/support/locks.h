/* Locks without a server: a queue, and who holds the lock in which mode. For the tests of
 * waitgraph.c, which asks whoever knows the holds. */
#ifndef LOCK_TESTS_LOCKS_H
#define LOCK_TESTS_LOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "rules.h"
#include "waitqueue.h"
#include "waitsearch.h"

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
void lockGiveBack(struct fakeLock *lock, const char *owner, size_t length, enum lockMode mode);

/* Whether the owner has a hold that keeps somebody else's request for `mode` waiting. */
bool lockIsInTheWay(const struct fakeLock *lock, const char *owner, size_t length,
                    enum lockMode mode);

/* Whether the owner holds it as a plain lock. */
bool lockIsPlainOf(const struct fakeLock *lock, const char *owner, size_t length);

/* Two waitsearchHolders, which mean the same: one goes through the holds, the other through the
 * requests in the graph. `context` is a size_t that counts the calls, or NULL. */
void lockTellHolds(struct waitsearch *search, struct waitqueue *queue, enum lockMode mode,
                   void *context);
void lockTellRequests(struct waitsearch *search, struct waitqueue *queue, enum lockMode mode,
                      void *context);

#endif
