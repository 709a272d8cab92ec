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

/* The number of the owner's first position in this line, counted from 1, or DETECTOR_NEVER. */
static size_t firstPosition(const struct detectorWorld *world, size_t lock, size_t owner) {
    const struct detectorLine *line = &world->lines[lock];
    for (size_t at = 0; at < line->count; at++) {
        if (line->waits[at]->owner == owner && line->waits[at]->in_graph) {
            return at + 1;
        }
    }
    return DETECTOR_NEVER;
}

/* The position at which the new request counts; 0 is ahead of all. */
static size_t positionOfRequest(const struct detectorWorld *world,
                                const struct detectorRequest *new_request, size_t lock) {
    const struct detectorLine *line = &world->lines[lock];
    size_t first = firstPosition(world, lock, new_request->owner);
    if (new_request->first) {
        return 0;
    }
    for (size_t at = 0; at < line->count && new_request->request.discipline == FAIR; at++) {
        const struct detectorWait *wait = line->waits[at];
        if (wait->owner == new_request->owner && wait->request.discipline == FAIR &&
            at + 1 < first) {
            return at + 1;
        }
    }
    return first;
}

/* Whether `other` is ahead of this position in this line and has a request there that conflicts
 * with `mode`. Its requests behind this position count too: they are re-entries once it has the
 * lock. */
static bool isAhead(const struct detectorWorld *world, size_t other, size_t lock,
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

static bool isForLock(const struct detectorRequest *new_request, size_t lock) {
    for (size_t i = 0; i < new_request->lock_count; i++) {
        if (new_request->locks[i] == lock) {
            return true;
        }
    }
    return false;
}

/* Whether the new request is ahead of this position in this line. */
static bool requestIsAhead(const struct detectorWorld *world,
                           const struct detectorRequest *new_request, size_t lock,
                           enum lockMode mode, size_t position) {
    return isForLock(new_request, lock) && excludes(mode, new_request->request.mode) &&
           positionOfRequest(world, new_request, lock) < position;
}

bool detectorWaitsAt(const struct detectorWorld *world, const struct detectorRequest *new_request,
                     size_t one, size_t other, size_t lock, bool behind) {
    const struct detectorLine *line = &world->lines[lock];
    size_t position = firstPosition(world, lock, one);
    if (new_request && one == new_request->owner && isForLock(new_request, lock)) {
        position = positionOfRequest(world, new_request, lock);
    }
    for (size_t at = 0; at < line->count; at++) {
        const struct detectorWait *wait = line->waits[at];
        enum lockMode mode = wait->request.mode;
        if (wait->owner != one || !wait->in_graph ||
            (wait->request.discipline == MULTIKEY && detectorHoldsPlain(world, one, lock))) {
            continue;
        }
        bool holds = detectorIsHolderInTheWay(world, other, lock, mode);
        bool ahead = isAhead(world, other, lock, mode, position) ||
                     (new_request && other == new_request->owner &&
                      requestIsAhead(world, new_request, lock, mode, position));
        if (behind ? ahead && !holds : holds) {
            return true;
        }
    }
    return false;
}

bool detectorRequestWaitsAt(const struct detectorWorld *world,
                            const struct detectorRequest *new_request, size_t other, size_t lock,
                            bool behind) {
    enum lockMode mode = new_request->request.mode;
    bool holds = detectorIsHolderInTheWay(world, other, lock, mode);
    bool ahead = isAhead(world, other, lock, mode, positionOfRequest(world, new_request, lock));
    return isForLock(new_request, lock) && (behind ? ahead && !holds : holds);
}

/* Whether there are, or may be, other requests behind the position of the new request. */
static bool mayBeAhead(const struct detectorWorld *world,
                       const struct detectorRequest *new_request) {
    for (size_t i = 0; i < new_request->lock_count; i++) {
        if (positionOfRequest(world, new_request, new_request->locks[i]) != DETECTOR_NEVER) {
            return true;
        }
    }
    return false;
}

bool detectorAskerWaitsAt(const struct detectorWorld *world,
                          const struct detectorRequest *new_request, size_t other, size_t lock,
                          bool behind) {
    return detectorRequestWaitsAt(world, new_request, other, lock, behind) ||
           (mayBeAhead(world, new_request) &&
            detectorWaitsAt(world, new_request, new_request->owner, other, lock, behind));
}

/* Whether `one`, which is not the asker, waits for `other`; if `new_request` is NULL, without the
 * new request. */
static bool waitsFor(const struct detectorWorld *world, const struct detectorRequest *new_request,
                     size_t one, size_t other) {
    for (size_t lock = 0; lock < world->lock_count && one != other; lock++) {
        if (detectorWaitsAt(world, new_request, one, other, lock, false) ||
            detectorWaitsAt(world, new_request, one, other, lock, true)) {
            return true;
        }
    }
    return false;
}

/* How many waits lead from one owner to another, on ways that do not include the asker. */
struct distances {
    size_t between[DETECTOR_MOST_OWNERS][DETECTOR_MOST_OWNERS];
};

static struct distances findDistances(const struct detectorWorld *world,
                                      const struct detectorRequest *new_request) {
    struct distances distances;
    size_t count = world->owner_count;
    for (size_t one = 0; one < count; one++) {
        for (size_t other = 0; other < count; other++) {
            bool waits = one != new_request->owner && other != new_request->owner &&
                         waitsFor(world, new_request, one, other);
            distances.between[one][other] = one == other ? 0 : waits ? 1 : DETECTOR_NEVER;
        }
    }
    for (size_t by = 0; by < count; by++) {
        for (size_t one = 0; one < count; one++) {
            for (size_t other = 0; other < count; other++) {
                size_t to = distances.between[one][by], from = distances.between[by][other];
                if (to != DETECTOR_NEVER && from != DETECTOR_NEVER &&
                    to + from < distances.between[one][other]) {
                    distances.between[one][other] = to + from;
                }
            }
        }
    }
    return distances;
}

static bool newlyWaitsFor(const struct detectorWorld *world,
                          const struct detectorRequest *new_request, size_t other) {
    for (size_t lock = 0; lock < world->lock_count; lock++) {
        if (detectorRequestWaitsAt(world, new_request, other, lock, false) ||
            detectorRequestWaitsAt(world, new_request, other, lock, true)) {
            return true;
        }
    }
    return false;
}

struct detectorLengths detectorShortestCycles(const struct detectorWorld *world,
                                              const struct detectorRequest *new_request) {
    const struct distances distances = findDistances(world, new_request);
    struct detectorLengths lengths = {DETECTOR_NEVER, DETECTOR_NEVER};
    bool ahead = mayBeAhead(world, new_request);
    for (size_t first = 0; first < world->owner_count; first++) {
        bool newly = first != new_request->owner && newlyWaitsFor(world, new_request, first);
        bool already = ahead && waitsFor(world, new_request, new_request->owner, first);
        for (size_t last = 0; last < world->owner_count; last++) {
            bool is_cycle = (newly || already) &&
                            distances.between[first][last] != DETECTOR_NEVER &&
                            waitsFor(world, new_request, last, new_request->owner);
            size_t length = distances.between[first][last] + 2;
            if (is_cycle && length < lengths.any) {
                lengths.any = length;
            }
            if (is_cycle && (newly || !waitsFor(world, NULL, last, new_request->owner)) &&
                length < lengths.closed) {
                lengths.closed = length;
            }
        }
    }
    return lengths;
}
