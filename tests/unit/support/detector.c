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

/* Whether a request of this owner waits for no other request in this line: it is for several keys,
 * and its owner already holds this lock. In MODE_EXCLUSIVE only a plain hold counts: another kind
 * of hold is in the way of the request itself. */
static bool passesOthers(const struct detectorWorld *world, const struct waitRequest *request,
                         size_t lock, enum lockMode mode) {
    const struct fakeLock *held = &world->locks[lock];
    return request->discipline == MULTIKEY &&
           (lockIsPlainOf(held, request->owner, request->owner_length) ||
            (mode != MODE_EXCLUSIVE &&
             lockIsInTheWay(held, request->owner, request->owner_length, MODE_EXCLUSIVE)));
}

/* The index of a lock in an array of the locks of a request, which has `count` elements; or
 * DETECTOR_NEVER. */
static size_t indexOf(const size_t *locks, size_t count, size_t lock) {
    for (size_t i = 0; i < count; i++) {
        if (locks[i] == lock) {
            return i;
        }
    }
    return DETECTOR_NEVER;
}

enum lockMode detectorModeAt(const struct detectorWait *wait, size_t lock) {
    return wait->modes[indexOf(wait->locks, wait->lock_count, lock)];
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

/* The index of this lock in the new request, or DETECTOR_NEVER. */
static size_t indexInRequest(const struct detectorRequest *new_request, size_t lock) {
    return indexOf(new_request->locks, new_request->lock_count, lock);
}

/* The position of this wait in this line, counted from 1. */
static size_t positionOf(const struct detectorLine *line, const struct detectorWait *wait) {
    size_t at = 0;
    while (line->waits[at] != wait) {
        at++;
    }
    return at + 1;
}

/* The position at which the new request counts: its own, or its owner's first. 0 is ahead of all,
 * DETECTOR_NEVER behind all. */
static size_t positionOfRequest(const struct detectorWorld *world,
                                const struct detectorRequest *new_request, size_t lock) {
    size_t first = firstPosition(world, lock, new_request->owner);
    if (new_request->at_head[indexInRequest(new_request, lock)]) {
        return 0;
    }
    size_t own =
        new_request->placed ? positionOf(&world->lines[lock], new_request->placed) : DETECTOR_NEVER;
    return own < first ? own : first;
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
        if (wait->owner == other && wait->in_graph && excludes(detectorModeAt(wait, lock), mode)) {
            return true;
        }
    }
    return false;
}

/* Whether the new request is ahead of this position in this line. */
static bool requestIsAhead(const struct detectorWorld *world,
                           const struct detectorRequest *new_request, size_t lock,
                           enum lockMode mode, size_t position) {
    size_t index = indexInRequest(new_request, lock);
    return index != DETECTOR_NEVER && excludes(mode, new_request->modes[index]) &&
           positionOfRequest(world, new_request, lock) < position;
}

bool detectorWaitsAt(const struct detectorWorld *world, const struct detectorRequest *new_request,
                     size_t one, size_t other, size_t lock, bool behind) {
    const struct detectorLine *line = &world->lines[lock];
    size_t position = firstPosition(world, lock, one);
    if (new_request && one == new_request->owner &&
        indexInRequest(new_request, lock) != DETECTOR_NEVER) {
        position = positionOfRequest(world, new_request, lock);
    }
    for (size_t at = 0; at < line->count; at++) {
        const struct detectorWait *wait = line->waits[at];
        if (wait->owner != one || !wait->in_graph) {
            continue;
        }
        enum lockMode mode = detectorModeAt(wait, lock);
        bool holds = detectorIsHolderInTheWay(world, other, lock, mode);
        bool ahead = isAhead(world, other, lock, mode, position) ||
                     (new_request && other == new_request->owner &&
                      requestIsAhead(world, new_request, lock, mode, position));
        bool waits_behind = ahead && !holds && !passesOthers(world, &wait->request, lock, mode);
        if (behind ? waits_behind : holds) {
            return true;
        }
    }
    return false;
}

bool detectorRequestWaitsAt(const struct detectorWorld *world,
                            const struct detectorRequest *new_request, size_t other, size_t lock,
                            bool behind) {
    size_t index = indexInRequest(new_request, lock);
    if (index == DETECTOR_NEVER) {
        return false;
    }
    enum lockMode mode = new_request->modes[index];
    bool holds = detectorIsHolderInTheWay(world, other, lock, mode);
    bool ahead = isAhead(world, other, lock, mode, positionOfRequest(world, new_request, lock));
    return behind ? ahead && !holds && !passesOthers(world, &new_request->request, lock, mode)
                  : holds;
}

/* Whether there are, or may be, other requests behind the position of the new request, which begin
 * to wait for it. They do not if its owner is the only holder: they wait for its hold already. */
static bool mayBeAhead(const struct detectorWorld *world,
                       const struct detectorRequest *new_request) {
    for (size_t i = 0; i < new_request->lock_count; i++) {
        size_t lock = new_request->locks[i];
        bool is_held = new_request->request.discipline == MULTIKEY &&
                       detectorHoldsPlain(world, new_request->owner, lock);
        if (!is_held && positionOfRequest(world, new_request, lock) != DETECTOR_NEVER) {
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
