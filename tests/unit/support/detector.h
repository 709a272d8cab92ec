/* Which owner waits for which, by a detector without shortcuts: it keeps the queues in plain
 * arrays, and tests every pair of owners. For the fuzz test of cyclesearch.c. */
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
    enum lockMode modes[DETECTOR_MOST_LOCKS];
    struct position positions[DETECTOR_MOST_LOCKS];
    char bytes[]; /* of the owner */
};

/* The queue of a lock, as the detector knows it: its waits in order. */
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

/* A request that does not wait yet: for each of its locks the mode, and whether it will be at the
 * head of the queue; or one that is in its queues already (`placed`). */
struct detectorRequest {
    size_t owner;
    struct waitRequest request;
    size_t lock_count;
    size_t locks[DETECTOR_MOST_LOCKS];
    enum lockMode modes[DETECTOR_MOST_LOCKS];
    bool at_head[DETECTOR_MOST_LOCKS];
    const struct detectorWait *placed; /* a wait outside of the graph that has its positions */
};

/* The bytes of an owner, which is a number otherwise. Some are a prefix of another's, or have a
 * zero byte. */
struct detectorOwner {
    const char *bytes;
    size_t length;
};

extern const struct detectorOwner detectorOwners[DETECTOR_MOST_OWNERS];

bool detectorIsHolderInTheWay(const struct detectorWorld *world, size_t holder, size_t lock,
                              enum lockMode mode);

/* The mode in which this wait, which is in the lock's line, waits there. */
enum lockMode detectorModeAt(const struct detectorWait *wait, size_t lock);

bool detectorHoldsPlain(const struct detectorWorld *world, size_t owner, size_t lock);

/* Whether `one` waits for `other` because of a position in this lock's line. If `behind` is false:
 * because `other` holds the lock; if it is true: because `other` is ahead there without holding the
 * lock. If `new_request` is NULL, without the new request. */
bool detectorWaitsAt(const struct detectorWorld *world, const struct detectorRequest *new_request,
                     size_t one, size_t other, size_t lock, bool behind);

/* Whether the new request would have to wait for `other` at this lock, by a hold or behind it. */
bool detectorRequestWaitsAt(const struct detectorWorld *world,
                            const struct detectorRequest *new_request, size_t other, size_t lock,
                            bool behind);

/* Whether the asker, the owner of the new request, waits for `other` at this lock: with the new
 * request; or, if other owners begin to wait for the asker because of it, with one of its earlier
 * requests. Otherwise a cycle through an earlier request would have been refused when that one
 * began. */
bool detectorAskerWaitsAt(const struct detectorWorld *world,
                          const struct detectorRequest *new_request, size_t other, size_t lock,
                          bool behind);

/* The length of the shortest cycle through the asker that the new request closes, and of the
 * shortest cycle through the asker of any kind; or DETECTOR_NEVER. If only the second one exists,
 * any answer of the search is correct: the cycle existed before. */
struct detectorLengths {
    size_t closed, any;
};

struct detectorLengths detectorShortestCycles(const struct detectorWorld *world,
                                              const struct detectorRequest *new_request);

#endif
