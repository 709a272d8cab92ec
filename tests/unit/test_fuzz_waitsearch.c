/* Random worlds of locks, holds and waits, and in each of them random requests that would wait:
 * what the search says of them, against a detector that knows no shortcut.
 *
 * The worlds need not be such as grants could lead to: a lock may have two writers, an owner may
 * wait for itself, and circles may be there already. Only what a search may count on is kept to:
 * an owner has one fair place in a queue, whoever holds a lock asks for it at the head, and a plain
 * lock has one holder. */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "support/locks.h"
#include "support/unit.h"
#include "waitsearch.h"

#define MOST_OWNERS 8
#define MOST_LOCKS 6
#define MOST_WAITS 14
#define NEVER SIZE_MAX

struct wait {
    struct request request;
    size_t owner;
    bool in_graph; /* if not, it is a place without a client */
    size_t lock_count;
    size_t locks[MOST_LOCKS];
    struct place places[MOST_LOCKS];
    char bytes[]; /* of the owner */
};

/* What the detector knows: who stands where, in order. */
struct line {
    struct wait *waits[MOST_WAITS];
    size_t count;
};

struct world {
    struct waitgraph graph;
    size_t owner_count, lock_count, wait_count;
    struct fakeLock locks[MOST_LOCKS];
    struct line lines[MOST_LOCKS];
    struct wait *waits[MOST_WAITS];
};

/* A request that does not wait yet. */
struct ask {
    size_t owner;
    struct request request;
    bool first;
    size_t lock_count;
    size_t locks[MOST_LOCKS];
};

/* Some are a prefix of another, or have a zero byte. */
static const struct {
    const char *bytes;
    size_t length;
} owners[MOST_OWNERS] = {{"a", 1},   {"ab", 2},       {"a\0b", 3},      {"a\0c", 3},
                         {"a\0", 2}, {"client-1", 8}, {"client-10", 9}, {"client-11", 9}};

/* ---- the detector ---- */

static bool excludes(enum lockMode one, enum lockMode other) {
    return one != MODE_READ || other != MODE_READ;
}

static bool isHolderInTheWay(const struct world *world, size_t holder, size_t lock,
                             enum lockMode mode) {
    return lockIsInTheWay(&world->locks[lock], owners[holder].bytes, owners[holder].length, mode);
}

static bool holdsPlain(const struct world *world, size_t owner, size_t lock) {
    return lockIsPlainOf(&world->locks[lock], owners[owner].bytes, owners[owner].length);
}

/* The first position at which the owner waits in this line, or NEVER. */
static size_t firstPosition(const struct world *world, size_t lock, size_t owner) {
    const struct line *line = &world->lines[lock];
    for (size_t at = 0; at < line->count; at++) {
        if (line->waits[at]->owner == owner && line->waits[at]->in_graph) {
            return at + 1;
        }
    }
    return NEVER;
}

/* Where the new request counts as standing: 0 is before everybody. */
static size_t positionOfAsk(const struct world *world, const struct ask *ask, size_t lock) {
    const struct line *line = &world->lines[lock];
    size_t first = firstPosition(world, lock, ask->owner);
    if (ask->first) {
        return 0;
    }
    for (size_t at = 0; at < line->count && ask->request.discipline == FAIR; at++) {
        const struct wait *wait = line->waits[at];
        if (wait->owner == ask->owner && wait->request.discipline == FAIR && at + 1 < first) {
            return at + 1;
        }
    }
    return first;
}

/* Whether `other` stands before this position in this line with a request that excludes `mode`.
 * What it asks for behind counts too: that is a re-entry once it has the lock. */
static bool standsAhead(const struct world *world, size_t other, size_t lock, enum lockMode mode,
                        size_t position) {
    const struct line *line = &world->lines[lock];
    if (firstPosition(world, lock, other) >= position) {
        return false;
    }
    for (size_t at = 0; at < line->count; at++) {
        const struct wait *wait = line->waits[at];
        if (wait->owner == other && wait->in_graph && excludes(wait->request.mode, mode)) {
            return true;
        }
    }
    return false;
}

static bool asksFor(const struct ask *ask, size_t lock) {
    for (size_t i = 0; i < ask->lock_count; i++) {
        if (ask->locks[i] == lock) {
            return true;
        }
    }
    return false;
}

/* Whether the new request is before this position in this line. */
static bool askStandsAhead(const struct world *world, const struct ask *ask, size_t lock,
                           enum lockMode mode, size_t position) {
    return asksFor(ask, lock) && excludes(mode, ask->request.mode) &&
           positionOfAsk(world, ask, lock) < position;
}

/* Whether a place of `one` in this lock's line makes it wait for `other`, in this way. */
static bool waitsAt(const struct world *world, const struct ask *ask, size_t one, size_t other,
                    size_t lock, bool behind) {
    const struct line *line = &world->lines[lock];
    size_t position = firstPosition(world, lock, one);
    if (ask && one == ask->owner && asksFor(ask, lock)) {
        position = positionOfAsk(world, ask, lock);
    }
    for (size_t at = 0; at < line->count; at++) {
        const struct wait *wait = line->waits[at];
        enum lockMode mode = wait->request.mode;
        if (wait->owner != one || !wait->in_graph ||
            (wait->request.discipline == JOINT && holdsPlain(world, one, lock))) {
            continue;
        }
        bool holds = isHolderInTheWay(world, other, lock, mode);
        bool ahead =
            standsAhead(world, other, lock, mode, position) ||
            (ask && other == ask->owner && askStandsAhead(world, ask, lock, mode, position));
        if (behind ? ahead && !holds : holds) {
            return true;
        }
    }
    return false;
}

/* Whether the new request would have to wait for `other` at this lock, in this way. */
static bool askWaitsAt(const struct world *world, const struct ask *ask, size_t other, size_t lock,
                       bool behind) {
    enum lockMode mode = ask->request.mode;
    bool holds = isHolderInTheWay(world, other, lock, mode);
    bool ahead = standsAhead(world, other, lock, mode, positionOfAsk(world, ask, lock));
    return asksFor(ask, lock) && (behind ? ahead && !holds : holds);
}

/* Whether somebody stands, or may stand, behind the place of the new request. */
static bool goesAhead(const struct world *world, const struct ask *ask) {
    for (size_t i = 0; i < ask->lock_count; i++) {
        if (positionOfAsk(world, ask, ask->locks[i]) != NEVER) {
            return true;
        }
    }
    return false;
}

/* Whether the asker waits for `other` at this lock: with the new request, or, if others begin to
 * wait for it with that, with those it has made before. Otherwise a circle through these would have
 * been refused when they began. */
static bool askerWaitsAt(const struct world *world, const struct ask *ask, size_t other,
                         size_t lock, bool behind) {
    return askWaitsAt(world, ask, other, lock, behind) ||
           (goesAhead(world, ask) && waitsAt(world, ask, ask->owner, other, lock, behind));
}

/* Whether `one`, who is not the asker, waits for `other`: without the new request if `ask` is NULL. */
static bool waitsFor(const struct world *world, const struct ask *ask, size_t one, size_t other) {
    for (size_t lock = 0; lock < world->lock_count && one != other; lock++) {
        if (waitsAt(world, ask, one, other, lock, false) ||
            waitsAt(world, ask, one, other, lock, true)) {
            return true;
        }
    }
    return false;
}

/* How many waits lead from one to another, past the asker. */
struct ways {
    size_t between[MOST_OWNERS][MOST_OWNERS];
};

static struct ways findWays(const struct world *world, const struct ask *ask) {
    struct ways ways;
    size_t count = world->owner_count;
    for (size_t one = 0; one < count; one++) {
        for (size_t other = 0; other < count; other++) {
            bool waits =
                one != ask->owner && other != ask->owner && waitsFor(world, ask, one, other);
            ways.between[one][other] = one == other ? 0 : waits ? 1 : NEVER;
        }
    }
    for (size_t by = 0; by < count; by++) {
        for (size_t one = 0; one < count; one++) {
            for (size_t other = 0; other < count; other++) {
                size_t to = ways.between[one][by], from = ways.between[by][other];
                if (to != NEVER && from != NEVER && to + from < ways.between[one][other]) {
                    ways.between[one][other] = to + from;
                }
            }
        }
    }
    return ways;
}

/* The lengths of a shortest circle through the asker that the new request closes, and of a shortest
 * one of any kind; or NEVER. Between the two any answer will do: there was a circle before. */
struct lengths {
    size_t closed, any;
};

static bool waitsAnew(const struct world *world, const struct ask *ask, size_t other) {
    for (size_t lock = 0; lock < world->lock_count; lock++) {
        if (askWaitsAt(world, ask, other, lock, false) ||
            askWaitsAt(world, ask, other, lock, true)) {
            return true;
        }
    }
    return false;
}

static struct lengths shortestCircles(const struct world *world, const struct ask *ask) {
    const struct ways ways = findWays(world, ask);
    struct lengths lengths = {NEVER, NEVER};
    bool ahead = goesAhead(world, ask);
    for (size_t first = 0; first < world->owner_count; first++) {
        bool anew = first != ask->owner && waitsAnew(world, ask, first);
        bool already = ahead && waitsFor(world, ask, ask->owner, first);
        for (size_t last = 0; last < world->owner_count; last++) {
            bool is_circle = (anew || already) && ways.between[first][last] != NEVER &&
                             waitsFor(world, ask, last, ask->owner);
            size_t length = ways.between[first][last] + 2;
            if (is_circle && length < lengths.any) {
                lengths.any = length;
            }
            if (is_circle && (anew || !waitsFor(world, NULL, last, ask->owner)) &&
                length < lengths.closed) {
                lengths.closed = length;
            }
        }
    }
    return lengths;
}

/* ---- the same question to the graph ---- */

static size_t ownerOfStep(const struct waitsearchStep *step) {
    for (size_t i = 0; i < MOST_OWNERS; i++) {
        if (owners[i].length == step->owner_length &&
            memcmp(owners[i].bytes, step->owner, step->owner_length) == 0) {
            return i;
        }
    }
    fail_msg("a step of nobody");
    return NEVER;
}

/* Every step is a wait, and the last leads back to the asker. */
static void assertIsCircle(struct world *world, const struct ask *ask,
                           const struct waitsearchCircle *circle) {
    assert_int_equal(ownerOfStep(&circle->steps[0]), ask->owner);
    for (size_t i = 0; i < circle->length; i++) {
        const struct waitsearchStep *step = &circle->steps[i];
        size_t one = ownerOfStep(step);
        size_t other = ownerOfStep(&circle->steps[(i + 1) % circle->length]);
        size_t lock = (size_t)(lockOfQueue(step->queue) - world->locks);
        assert_true(lock < world->lock_count);
        assert_true(i == 0 ? askerWaitsAt(world, ask, other, lock, step->behind)
                           : waitsAt(world, ask, one, other, lock, step->behind));
    }
}

static enum waitsearchResult search(struct world *world, const struct ask *ask, size_t most,
                                    waitsearchHolders holders, struct waitsearchCircle **circle) {
    struct waitqueue *queues[MOST_LOCKS];
    for (size_t i = 0; i < ask->lock_count; i++) {
        queues[i] = &world->locks[ask->locks[i]].queue;
    }
    const struct waitsearchAim aim = {queues, ask->lock_count, ask->first};
    return waitsearchFind(&world->graph, &ask->request, &aim, most, holders, NULL, circle);
}

static void assertSameAnswer(struct world *world, const struct ask *ask, size_t most,
                             waitsearchHolders holders, struct lengths lengths) {
    struct waitsearchCircle *circle = NULL;
    enum waitsearchResult result = search(world, ask, most, holders, &circle);
    if (result == WAITSEARCH_GAVE_UP) {
        assert_true(most < NEVER);
        return;
    }
    if (result == WAITSEARCH_NO_CIRCLE) {
        assert_int_equal(lengths.closed, NEVER);
    } else {
        assert_int_equal(result, WAITSEARCH_CIRCLE);
        assert_in_range(circle->length, lengths.any, lengths.closed);
        assertIsCircle(world, ask, circle);
        memFree(circle);
    }
}

/* ---- the worlds ---- */

static enum lockMode randomMode(struct fuzz *fuzz) {
    return (enum lockMode)fuzzBelow(fuzz, MODE_COUNT);
}

static bool hasFairPlace(const struct world *world, size_t owner, size_t lock) {
    const struct line *line = &world->lines[lock];
    for (size_t at = 0; at < line->count; at++) {
        if (line->waits[at]->owner == owner && line->waits[at]->request.discipline == FAIR) {
            return true;
        }
    }
    return false;
}

static bool holdsAny(const struct world *world, size_t owner, size_t lock) {
    return isHolderInTheWay(world, owner, lock, MODE_EXCLUSIVE);
}

/* Different ones: several for a joint request, one for any other. */
static void chooseLocks(struct fuzz *fuzz, const struct world *world, struct ask *ask) {
    size_t count = ask->request.discipline == JOINT ? 1 + fuzzBelow(fuzz, world->lock_count) : 1;
    size_t lock = fuzzBelow(fuzz, world->lock_count);
    for (ask->lock_count = 0; ask->lock_count < count; ask->lock_count++) {
        ask->locks[ask->lock_count] = lock;
        lock = lock + 1 < world->lock_count ? lock + 1 : 0;
    }
}

/* A request for several does not wait for those that its owner holds. */
static void leaveOutHeld(const struct world *world, struct ask *ask) {
    size_t kept = 0;
    for (size_t i = 0; i < ask->lock_count && ask->request.discipline == JOINT; i++) {
        if (!holdsPlain(world, ask->owner, ask->locks[i])) {
            ask->locks[kept++] = ask->locks[i];
        }
    }
    if (kept > 0) {
        ask->lock_count = kept;
    } else if (ask->request.discipline == JOINT) {
        ask->request.discipline = ORDERED;
        ask->lock_count = 1;
    }
}

static struct ask randomAsk(struct fuzz *fuzz, const struct world *world) {
    static const enum discipline disciplines[] = {PLAIN, ORDERED, ORDERED, FAIR, JOINT};
    struct ask ask = {.owner = fuzzBelow(fuzz, world->owner_count)};
    ask.request = (struct request){
        .owner = owners[ask.owner].bytes,
        .owner_length = owners[ask.owner].length,
        .mode = randomMode(fuzz),
        .discipline = disciplines[fuzzBelow(fuzz, LENGTH_OF(disciplines))],
    };
    chooseLocks(fuzz, world, &ask);
    leaveOutHeld(world, &ask);
    ask.first = fuzzOneIn(fuzz, 16);
    for (size_t i = 0; i < ask.lock_count; i++) {
        ask.first |= holdsAny(world, ask.owner, ask.locks[i]);
    }
    return ask;
}

static void insertAt(struct line *line, size_t at, struct wait *wait) {
    for (size_t i = line->count++; i > at; i--) {
        line->waits[i] = line->waits[i - 1];
    }
    line->waits[at] = wait;
}

static void removeFrom(struct line *line, const struct wait *wait) {
    size_t kept = 0;
    for (size_t i = 0; i < line->count; i++) {
        if (line->waits[i] != wait) {
            line->waits[kept++] = line->waits[i];
        }
    }
    line->count = kept;
}

static struct wait *newWait(struct world *world, const struct ask *ask) {
    size_t length = owners[ask->owner].length;
    struct wait *wait = calloc(1, sizeof(*wait) + length); /* not a byte more */
    assert_non_null(wait);
    memcpy(wait->bytes, owners[ask->owner].bytes, length);
    wait->request = ask->request;
    wait->request.owner = wait->bytes;
    wait->owner = ask->owner;
    world->waits[world->wait_count++] = wait;
    return wait;
}

static void stand(struct world *world, struct wait *wait, size_t lock, bool first) {
    struct place *place = &wait->places[wait->lock_count];
    struct waitqueue *queue = &world->locks[lock].queue;
    wait->locks[wait->lock_count++] = lock;
    if (first) {
        waitqueueAddFirst(queue, place, &wait->request);
    } else {
        waitqueueAdd(queue, place, &wait->request);
    }
    insertAt(&world->lines[lock], first ? 0 : world->lines[lock].count, wait);
}

static void beginToWait(struct fuzz *fuzz, struct world *world) {
    struct ask ask = randomAsk(fuzz, world);
    bool has_place = hasFairPlace(world, ask.owner, ask.locks[0]);
    if (world->wait_count == MOST_WAITS || (ask.request.discipline == FAIR && has_place)) {
        return;
    }
    struct wait *wait = newWait(world, &ask);
    for (size_t i = 0; i < ask.lock_count; i++) {
        stand(world, wait, ask.locks[i], ask.first);
    }
    wait->in_graph = !(ask.request.discipline == FAIR && fuzzOneIn(fuzz, 3));
    if (wait->in_graph) {
        waitgraphEnter(&world->graph, &wait->request);
    }
}

static void detach(struct world *world, size_t at) {
    waitgraphLeave(&world->graph, &world->waits[at]->request);
    world->waits[at]->in_graph = false;
}

static void endWait(struct world *world, size_t at) {
    struct wait *wait = world->waits[at];
    waitgraphLeave(&world->graph, &wait->request);
    for (size_t i = 0; i < wait->lock_count; i++) {
        waitqueueRemove(&wait->places[i]);
        removeFrom(&world->lines[wait->locks[i]], wait);
    }
    free(wait);
    world->waits[at] = world->waits[--world->wait_count];
}

static void moveFirst(struct fuzz *fuzz, struct world *world, struct wait *wait) {
    size_t at = fuzzBelow(fuzz, wait->lock_count);
    struct line *line = &world->lines[wait->locks[at]];
    waitqueueMoveFirst(&wait->places[at]);
    removeFrom(line, wait);
    insertAt(line, 0, wait);
}

static void changeHolds(struct fuzz *fuzz, struct world *world) {
    size_t owner = fuzzBelow(fuzz, world->owner_count);
    struct fakeLock *lock = &world->locks[fuzzBelow(fuzz, world->lock_count)];
    enum lockMode mode = randomMode(fuzz);
    bool is_plain = lock->held > 0 && lock->holds[0].mode == MODE_EXCLUSIVE;
    bool fits = lock->held == 0 || (!is_plain && mode != MODE_EXCLUSIVE);
    if (fits && lock->held < 1 + fuzzBelow(fuzz, 3)) {
        lockHold(lock, owners[owner].bytes, owners[owner].length, mode);
    } else {
        if (lock->held == 0) {
            return;
        }
        const struct fakeHold gone = lock->holds[fuzzBelow(fuzz, lock->held)];
        lockGiveBack(lock, gone.owner, gone.length, gone.mode);
    }
}

static void change(struct fuzz *fuzz, struct world *world) {
    size_t what = fuzzBelow(fuzz, 12);
    size_t at = world->wait_count ? fuzzBelow(fuzz, world->wait_count) : 0;
    if (what < 3) {
        changeHolds(fuzz, world);
    } else if (what < 8 || world->wait_count == 0) {
        beginToWait(fuzz, world);
    } else if (what < 9) {
        moveFirst(fuzz, world, world->waits[at]);
    } else if (what < 10 && world->waits[at]->request.discipline == FAIR) {
        detach(world, at);
    } else {
        endWait(world, at);
    }
}

/* A place is a tie if its owner stands in another, too, and counts as long as it is in the graph.
 */
static void assertCounts(const struct world *world) {
    size_t places[MOST_OWNERS] = {0}, in_graph = 0;
    for (size_t i = 0; i < world->wait_count; i++) {
        places[world->waits[i]->owner] +=
            world->waits[i]->in_graph ? world->waits[i]->lock_count : 0;
        in_graph += world->waits[i]->in_graph;
    }
    assert_int_equal(waitgraphSize(&world->graph), in_graph);
    for (size_t lock = 0; lock < world->lock_count; lock++) {
        const struct line *line = &world->lines[lock];
        size_t ties = 0, waiting = 0;
        for (size_t at = 0; at < line->count; at++) {
            waiting += line->waits[at]->in_graph;
            ties += line->waits[at]->in_graph && places[line->waits[at]->owner] > 1;
        }
        assert_int_equal(world->locks[lock].queue.in_graph, waiting);
        assert_int_equal(world->locks[lock].queue.ties.length, ties);
    }
}

static void beginWorld(struct fuzz *fuzz, struct world *world) {
    *world = (struct world){.owner_count = 3 + fuzzBelow(fuzz, MOST_OWNERS - 2),
                            .lock_count = 2 + fuzzBelow(fuzz, MOST_LOCKS - 1)};
    mapSeed((const uint64_t[2]){fuzzNext(fuzz), fuzzNext(fuzz)});
}

static void endWorld(struct world *world, size_t memory_before) {
    while (world->wait_count > 0) {
        endWait(world, world->wait_count - 1);
    }
    assertCounts(world);
    assert_int_equal(memLive(), memory_before);
}

static void every_answer_is_that_of_a_detector_without_shortcuts(void **state) {
    (void)state;
    struct fuzz fuzz = fuzzStart("waitsearch", 200000);
    size_t before = memLive();
    struct world world;
    beginWorld(&fuzz, &world);
    for (size_t step = 0; step < fuzz.steps; step++) {
        change(&fuzz, &world);
        assertCounts(&world);
        struct ask ask = randomAsk(&fuzz, &world);
        struct lengths lengths = shortestCircles(&world, &ask);
        assertSameAnswer(&world, &ask, NEVER, lockTellHolds, lengths);
        assertSameAnswer(&world, &ask, NEVER, lockTellRequests, lengths);
        assertSameAnswer(&world, &ask, fuzzBelow(&fuzz, 20), lockTellHolds, lengths);
        assertCounts(&world);
        if (fuzzOneIn(&fuzz, 200)) {
            endWorld(&world, before);
            beginWorld(&fuzz, &world);
        }
    }
    endWorld(&world, before);
    mapSeed((const uint64_t[2]){0, 0});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(every_answer_is_that_of_a_detector_without_shortcuts),
    };
    return cmocka_run_group_tests_name("fuzz waitsearch", tests, NULL, NULL);
}
