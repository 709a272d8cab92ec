/* Who waits for whom, by a detector that knows no shortcut: who stands where is in plain arrays,
 * and it asks of everybody whether there is a way to anybody. For the fuzz test of cyclesearch.c.
 */
#ifndef LOCK_TESTS_DETECTOR_H
#define LOCK_TESTS_DETECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/waitgraph.h"
#include "locks.h"

#define DETECTOR_MOST_OWNERS 8
#define DETECTOR_MOST_LOCKS 6
#define DETECTOR_MOST_WAITS 14
#define DETECTOR_NEVER SIZE_MAX

struct detectorWait {
    struct waitRequest request;
    size_t owner;
    bool in_graph; /* if not, it is a position without a client */
    size_t lock_count;
    size_t locks[DETECTOR_MOST_LOCKS];
    struct position positions[DETECTOR_MOST_LOCKS];
    char bytes[]; /* of the owner */
};

/* What the detector knows: who stands where, in order. */
struct detectorLine {
    struct detectorWait *waits[DETECTOR_MOST_WAITS];
    size_t count;
};

struct detectorWorld {
    struct waitgraph graph;
    size_t owner_count, lock_count, wait_count;
    struct fakeLock locks[DETECTOR_MOST_LOCKS];
    struct detectorLine lines[DETECTOR_MOST_LOCKS];
    struct detectorWait *waits[DETECTOR_MOST_WAITS];
};

/* A request that does not wait yet. */
struct detectorAsk {
    size_t owner;
    struct waitRequest request;
    bool first;
    size_t lock_count;
    size_t locks[DETECTOR_MOST_LOCKS];
};

/* An owner is a number. Some are a prefix of another, or have a zero byte. */
struct detectorOwner {
    const char *bytes;
    size_t length;
};

extern const struct detectorOwner detectorOwners[DETECTOR_MOST_OWNERS];

bool detectorIsHolderInTheWay(const struct detectorWorld *world, size_t holder, size_t lock,
                              enum lockMode mode);

bool detectorHoldsPlain(const struct detectorWorld *world, size_t owner, size_t lock);

/* Whether a position of `one` in this lock's line makes it wait for `other`, in this way: because
 * `other` holds the lock, or is ahead without holding it. Without the new request if `ask` is NULL.
 */
bool detectorWaitsAt(const struct detectorWorld *world, const struct detectorAsk *ask, size_t one,
                     size_t other, size_t lock, bool behind);

/* Whether the new request would have to wait for `other` at this lock, in this way. */
bool detectorAskWaitsAt(const struct detectorWorld *world, const struct detectorAsk *ask,
                        size_t other, size_t lock, bool behind);

/* Whether the asker waits for `other` at this lock: with the new request, or, if others begin to
 * wait for it with that, with those it has made before. Otherwise a cycle through these would have
 * been refused when they began. */
bool detectorAskerWaitsAt(const struct detectorWorld *world, const struct detectorAsk *ask,
                          size_t other, size_t lock, bool behind);

/* The lengths of a shortest cycle through the asker that the new request closes, and of a shortest
 * one of any kind; or DETECTOR_NEVER. Between the two any answer will do: there was a cycle
 * before. */
struct detectorLengths {
    size_t closed, any;
};

struct detectorLengths detectorShortestCycles(const struct detectorWorld *world,
                                              const struct detectorAsk *ask);

#endif
