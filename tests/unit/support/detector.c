/* See detector.h. */
#include "detector.h"

const struct detectorOwner detectorOwners[DETECTOR_MOST_OWNERS] = {
    {"a", 1},   {"ab", 2},       {"a\0b", 3},      {"a\0c", 3},
    {"a\0", 2}, {"client-1", 8}, {"client-10", 9}, {"client-11", 9}};

static bool excludes(enum lockMode one, enum lockMode other) {
    return one != MODE_READ || other != MODE_READ;
}

bool detectorIsHolderInTheWay(const struct detectorWorld *world, size_t holder, size_t lock,
                              enum lockMode mode) {
    return lockIsInTheWay(&world->locks[lock], detectorOwners[holder].bytes,
                          detectorOwners[holder].length, mode);
}

bool detectorHoldsPlain(const struct detectorWorld *world, size_t owner, size_t lock) {
    return lockIsPlainOf(&world->locks[lock], detectorOwners[owner].bytes,
                         detectorOwners[owner].length);
}

/* The first position at which the owner waits in this line, or DETECTOR_NEVER. */
static size_t firstPosition(const struct detectorWorld *world, size_t lock, size_t owner) {
    const struct detectorLine *line = &world->lines[lock];
    for (size_t at = 0; at < line->count; at++) {
        if (line->waits[at]->owner == owner && line->waits[at]->in_graph) {
            return at + 1;
        }
    }
    return DETECTOR_NEVER;
}

/* Where the new request counts as standing: 0 is before everybody. */
static size_t positionOfAsk(const struct detectorWorld *world, const struct detectorAsk *ask,
                            size_t lock) {
    const struct detectorLine *line = &world->lines[lock];
    size_t first = firstPosition(world, lock, ask->owner);
    if (ask->first) {
        return 0;
    }
    for (size_t at = 0; at < line->count && ask->request.discipline == FAIR; at++) {
        const struct detectorWait *wait = line->waits[at];
        if (wait->owner == ask->owner && wait->request.discipline == FAIR && at + 1 < first) {
            return at + 1;
        }
    }
    return first;
}

/* Whether `other` stands before this position in this line with a request that excludes `mode`.
 * What it asks for behind counts too: that is a re-entry once it has the lock. */
static bool standsAhead(const struct detectorWorld *world, size_t other, size_t lock,
                        enum lockMode mode, size_t position) {
    const struct detectorLine *line = &world->lines[lock];
    if (firstPosition(world, lock, other) >= position) {
        return false;
    }
    for (size_t at = 0; at < line->count; at++) {
        const struct detectorWait *wait = line->waits[at];
        if (wait->owner == other && wait->in_graph && excludes(wait->request.mode, mode)) {
            return true;
        }
    }
    return false;
}

static bool asksFor(const struct detectorAsk *ask, size_t lock) {
    for (size_t i = 0; i < ask->lock_count; i++) {
        if (ask->locks[i] == lock) {
            return true;
        }
    }
    return false;
}

/* Whether the new request is before this position in this line. */
static bool askStandsAhead(const struct detectorWorld *world, const struct detectorAsk *ask,
                           size_t lock, enum lockMode mode, size_t position) {
    return asksFor(ask, lock) && excludes(mode, ask->request.mode) &&
           positionOfAsk(world, ask, lock) < position;
}

bool detectorWaitsAt(const struct detectorWorld *world, const struct detectorAsk *ask, size_t one,
                     size_t other, size_t lock, bool behind) {
    const struct detectorLine *line = &world->lines[lock];
    size_t position = firstPosition(world, lock, one);
    if (ask && one == ask->owner && asksFor(ask, lock)) {
        position = positionOfAsk(world, ask, lock);
    }
    for (size_t at = 0; at < line->count; at++) {
        const struct detectorWait *wait = line->waits[at];
        enum lockMode mode = wait->request.mode;
        if (wait->owner != one || !wait->in_graph ||
            (wait->request.discipline == MULTIKEY && detectorHoldsPlain(world, one, lock))) {
            continue;
        }
        bool holds = detectorIsHolderInTheWay(world, other, lock, mode);
        bool ahead =
            standsAhead(world, other, lock, mode, position) ||
            (ask && other == ask->owner && askStandsAhead(world, ask, lock, mode, position));
        if (behind ? ahead && !holds : holds) {
            return true;
        }
    }
    return false;
}

bool detectorAskWaitsAt(const struct detectorWorld *world, const struct detectorAsk *ask,
                        size_t other, size_t lock, bool behind) {
    enum lockMode mode = ask->request.mode;
    bool holds = detectorIsHolderInTheWay(world, other, lock, mode);
    bool ahead = standsAhead(world, other, lock, mode, positionOfAsk(world, ask, lock));
    return asksFor(ask, lock) && (behind ? ahead && !holds : holds);
}

/* Whether somebody stands, or may stand, behind the position of the new request. */
static bool goesAhead(const struct detectorWorld *world, const struct detectorAsk *ask) {
    for (size_t i = 0; i < ask->lock_count; i++) {
        if (positionOfAsk(world, ask, ask->locks[i]) != DETECTOR_NEVER) {
            return true;
        }
    }
    return false;
}

bool detectorAskerWaitsAt(const struct detectorWorld *world, const struct detectorAsk *ask,
                          size_t other, size_t lock, bool behind) {
    return detectorAskWaitsAt(world, ask, other, lock, behind) ||
           (goesAhead(world, ask) && detectorWaitsAt(world, ask, ask->owner, other, lock, behind));
}

/* Whether `one`, who is not the asker, waits for `other`: without the new request if `ask` is NULL.
 */
static bool waitsFor(const struct detectorWorld *world, const struct detectorAsk *ask, size_t one,
                     size_t other) {
    for (size_t lock = 0; lock < world->lock_count && one != other; lock++) {
        if (detectorWaitsAt(world, ask, one, other, lock, false) ||
            detectorWaitsAt(world, ask, one, other, lock, true)) {
            return true;
        }
    }
    return false;
}

/* How many waits lead from one to another, past the asker. */
struct ways {
    size_t between[DETECTOR_MOST_OWNERS][DETECTOR_MOST_OWNERS];
};

static struct ways findWays(const struct detectorWorld *world, const struct detectorAsk *ask) {
    struct ways ways;
    size_t count = world->owner_count;
    for (size_t one = 0; one < count; one++) {
        for (size_t other = 0; other < count; other++) {
            bool waits =
                one != ask->owner && other != ask->owner && waitsFor(world, ask, one, other);
            ways.between[one][other] = one == other ? 0 : waits ? 1 : DETECTOR_NEVER;
        }
    }
    for (size_t by = 0; by < count; by++) {
        for (size_t one = 0; one < count; one++) {
            for (size_t other = 0; other < count; other++) {
                size_t to = ways.between[one][by], from = ways.between[by][other];
                if (to != DETECTOR_NEVER && from != DETECTOR_NEVER &&
                    to + from < ways.between[one][other]) {
                    ways.between[one][other] = to + from;
                }
            }
        }
    }
    return ways;
}

static bool waitsAnew(const struct detectorWorld *world, const struct detectorAsk *ask,
                      size_t other) {
    for (size_t lock = 0; lock < world->lock_count; lock++) {
        if (detectorAskWaitsAt(world, ask, other, lock, false) ||
            detectorAskWaitsAt(world, ask, other, lock, true)) {
            return true;
        }
    }
    return false;
}

struct detectorLengths detectorShortestCycles(const struct detectorWorld *world,
                                              const struct detectorAsk *ask) {
    const struct ways ways = findWays(world, ask);
    struct detectorLengths lengths = {DETECTOR_NEVER, DETECTOR_NEVER};
    bool ahead = goesAhead(world, ask);
    for (size_t first = 0; first < world->owner_count; first++) {
        bool anew = first != ask->owner && waitsAnew(world, ask, first);
        bool already = ahead && waitsFor(world, ask, ask->owner, first);
        for (size_t last = 0; last < world->owner_count; last++) {
            bool is_cycle = (anew || already) && ways.between[first][last] != DETECTOR_NEVER &&
                            waitsFor(world, ask, last, ask->owner);
            size_t length = ways.between[first][last] + 2;
            if (is_cycle && length < lengths.any) {
                lengths.any = length;
            }
            if (is_cycle && (anew || !waitsFor(world, NULL, last, ask->owner)) &&
                length < lengths.closed) {
                lengths.closed = length;
            }
        }
    }
    return lengths;
}
