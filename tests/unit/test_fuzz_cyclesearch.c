/* Random worlds of locks, holds and waits, and in each of them random requests that would wait:
 * the results of searches from them are compared with a detector that uses no shortcuts.
 *
 * A world need not be one that grants could lead to: a lock may have two writers, an owner may wait
 * for itself, and there may be cycles already. Only what a search may rely on is guaranteed: an
 * owner has one fair position in a queue, the request of a holder is added at the head, and a plain
 * lock has one holder. */
#include <stdlib.h>
#include <string.h>

#include "core/cyclesearch.h"
#include "core/mem.h"
#include "core/queuecheck.h"
#include "support/detector.h"
#include "support/locks.h"
#include "support/unit.h"

/* ---- cycles ---- */

static size_t ownerOfStep(const struct cyclepathStep *step) {
    for (size_t i = 0; i < DETECTOR_MOST_OWNERS; i++) {
        if (detectorOwners[i].length == step->owner_length &&
            memcmp(detectorOwners[i].bytes, step->owner, step->owner_length) == 0) {
            return i;
        }
    }
    fail_msg("a step of no owner");
    return DETECTOR_NEVER;
}

/* Asserts that every step is a wait, and that the last one leads back to the asker. */
static void assertIsCycle(struct detectorWorld *world, const struct detectorRequest *new_request,
                          const struct cyclepathCycle *cycle) {
    assert_int_equal(ownerOfStep(&cycle->steps[0]), new_request->owner);
    for (size_t i = 0; i < cycle->length; i++) {
        const struct cyclepathStep *step = &cycle->steps[i];
        size_t one = ownerOfStep(step);
        size_t other = ownerOfStep(&cycle->steps[(i + 1) % cycle->length]);
        size_t lock = (size_t)(lockOfQueue(step->queue) - world->locks);
        assert_true(lock < world->lock_count);
        bool waits = detectorWaitsAt(world, new_request, one, other, lock, step->behind);
        assert_true(waits || (i == 0 &&
                              detectorAskerWaitsAt(world, new_request, other, lock, step->behind)));
    }
}

/* ---- the worlds ---- */

/* One of the modes that the search sees: permits are no edges. */
static enum lockMode randomMode(struct fuzz *fuzz) {
    static const enum lockMode modes[] = {MODE_READ, MODE_WRITE, MODE_EXCLUSIVE};
    return modes[fuzzBelow(fuzz, LENGTH_OF(modes))];
}

static bool hasFairPosition(const struct detectorWorld *world, size_t owner, size_t lock) {
    const struct detectorLine *line = &world->lines[lock];
    for (size_t at = 0; at < line->count; at++) {
        if (line->waits[at]->owner == owner && line->waits[at]->request.discipline == FAIR) {
            return true;
        }
    }
    return false;
}

static bool holdsAny(const struct detectorWorld *world, size_t owner, size_t lock) {
    return detectorIsHolderInTheWay(world, owner, lock, MODE_EXCLUSIVE);
}

/* Chooses different locks: one or more for a multikey request, one for any other. */
static void chooseLocks(struct fuzz *fuzz, const struct detectorWorld *world,
                        struct detectorRequest *new_request) {
    size_t count =
        new_request->request.discipline == MULTIKEY ? 1 + fuzzBelow(fuzz, world->lock_count) : 1;
    size_t lock = fuzzBelow(fuzz, world->lock_count);
    for (new_request->lock_count = 0; new_request->lock_count < count; new_request->lock_count++) {
        new_request->locks[new_request->lock_count] = lock;
        lock = lock + 1 < world->lock_count ? lock + 1 : 0;
    }
}

/* Chooses the mode for each lock: a multikey request wants all as plain locks, or each to read or
 * to write. */
static void chooseModes(struct fuzz *fuzz, struct detectorRequest *new_request) {
    bool is_multikey = new_request->request.discipline == MULTIKEY;
    enum lockMode mode = is_multikey ? MODE_EXCLUSIVE : randomMode(fuzz);
    bool differ = is_multikey && fuzzOneIn(fuzz, 2);
    for (size_t i = 0; i < new_request->lock_count; i++) {
        new_request->modes[i] = !differ ? mode : fuzzOneIn(fuzz, 2) ? MODE_READ : MODE_WRITE;
    }
}

/* Whether the position for this lock must be at the head: its owner holds the lock. For a multikey
 * request only if the hold is of another kind; otherwise it waits for no other request here,
 * wherever it is. */
static bool mustBeAtHead(const struct detectorWorld *world,
                         const struct detectorRequest *new_request, size_t index) {
    size_t owner = new_request->owner, lock = new_request->locks[index];
    bool is_of_another_kind =
        new_request->modes[index] == MODE_EXCLUSIVE && !detectorHoldsPlain(world, owner, lock);
    return holdsAny(world, owner, lock) &&
           (new_request->request.discipline != MULTIKEY || is_of_another_kind);
}

/* Upgrades usually are. */
static bool isAtHead(struct fuzz *fuzz, const struct detectorWorld *world,
                     const struct detectorRequest *new_request, size_t index) {
    bool may_be_upgrade = new_request->modes[index] == MODE_WRITE &&
                          holdsAny(world, new_request->owner, new_request->locks[index]);
    return mustBeAtHead(world, new_request, index) ||
           (may_be_upgrade ? !fuzzOneIn(fuzz, 4) : fuzzOneIn(fuzz, 16));
}

static struct detectorRequest randomRequest(struct fuzz *fuzz, const struct detectorWorld *world) {
    static const enum discipline disciplines[] = {PLAIN, ORDERED,  ORDERED,
                                                  FAIR,  MULTIKEY, MULTIKEY};
    struct detectorRequest new_request = {.owner = fuzzBelow(fuzz, world->owner_count)};
    new_request.request = (struct waitRequest){
        .owner = detectorOwners[new_request.owner].bytes,
        .owner_length = detectorOwners[new_request.owner].length,
        .discipline = disciplines[fuzzBelow(fuzz, LENGTH_OF(disciplines))],
    };
    chooseLocks(fuzz, world, &new_request);
    chooseModes(fuzz, &new_request);
    for (size_t i = 0; i < new_request.lock_count; i++) {
        new_request.at_head[i] = isAtHead(fuzz, world, &new_request, i);
    }
    return new_request;
}

static void insertAt(struct detectorLine *line, size_t at, struct detectorWait *wait) {
    for (size_t i = line->count++; i > at; i--) {
        line->waits[i] = line->waits[i - 1];
    }
    line->waits[at] = wait;
}

static void removeFrom(struct detectorLine *line, const struct detectorWait *wait) {
    size_t kept = 0;
    for (size_t i = 0; i < line->count; i++) {
        if (line->waits[i] != wait) {
            line->waits[kept++] = line->waits[i];
        }
    }
    line->count = kept;
}

static struct detectorWait *newWait(struct detectorWorld *world,
                                    const struct detectorRequest *new_request) {
    size_t length = detectorOwners[new_request->owner].length;
    struct detectorWait *wait = calloc(1, sizeof(*wait) + length); /* without a zero byte */
    assert_non_null(wait);
    memcpy(wait->bytes, detectorOwners[new_request->owner].bytes, length);
    wait->request = new_request->request;
    wait->request.owner = wait->bytes;
    wait->owner = new_request->owner;
    wait->lock_count = new_request->lock_count;
    memcpy(wait->locks, new_request->locks, sizeof(wait->locks));
    memcpy(wait->modes, new_request->modes, sizeof(wait->modes));
    world->waits[world->wait_count++] = wait;
    return wait;
}

/* Adds the positions of the new request. */
static void enqueue(struct detectorWorld *world, struct detectorWait *wait,
                    const struct detectorRequest *new_request) {
    for (size_t i = 0; i < new_request->lock_count; i++) {
        size_t lock = new_request->locks[i];
        struct waitqueue *queue = &world->locks[lock].queue;
        struct detectorLine *line = &world->lines[lock];
        if (new_request->at_head[i]) {
            waitqueueAddFirst(queue, &wait->positions[i], &wait->request, new_request->modes[i]);
        } else {
            waitqueueAdd(queue, &wait->positions[i], &wait->request, new_request->modes[i]);
        }
        insertAt(line, new_request->at_head[i] ? 0 : line->count, wait);
    }
}

static void beginToWait(struct fuzz *fuzz, struct detectorWorld *world) {
    struct detectorRequest new_request = randomRequest(fuzz, world);
    bool has_position = hasFairPosition(world, new_request.owner, new_request.locks[0]);
    if (world->wait_count == DETECTOR_MOST_WAITS ||
        (new_request.request.discipline == FAIR && has_position)) {
        return;
    }
    if (new_request.request.discipline == ORDERED && fuzzOneIn(fuzz, 4)) {
        new_request.modes[0] = MODE_SEMAPHORE;
    }
    struct detectorWait *wait = newWait(world, &new_request);
    enqueue(world, wait, &new_request);
    bool is_semaphore = new_request.modes[0] == MODE_SEMAPHORE;
    wait->in_graph =
        !is_semaphore && !(new_request.request.discipline == FAIR && fuzzOneIn(fuzz, 3));
    if (wait->in_graph) {
        waitgraphEnter(&world->graph, &wait->request);
    }
}

static void detach(struct detectorWorld *world, size_t at) {
    cyclesearchLeave(&world->graph, &world->waits[at]->request);
    world->waits[at]->in_graph = false;
}

static void endWait(struct detectorWorld *world, size_t at) {
    struct detectorWait *wait = world->waits[at];
    cyclesearchLeave(&world->graph, &wait->request);
    for (size_t i = 0; i < wait->lock_count; i++) {
        waitqueueRemove(&wait->positions[i]);
        removeFrom(&world->lines[wait->locks[i]], wait);
    }
    free(wait);
    world->waits[at] = world->waits[--world->wait_count];
}

static void moveFirst(struct fuzz *fuzz, struct detectorWorld *world, struct detectorWait *wait) {
    size_t at = fuzzBelow(fuzz, wait->lock_count);
    struct detectorLine *line = &world->lines[wait->locks[at]];
    cyclesearchMove(&world->graph, &wait->positions[at]);
    waitqueueMoveFirst(&wait->positions[at]);
    removeFrom(line, wait);
    insertAt(line, 0, wait);
}

static void changeHolds(struct fuzz *fuzz, struct detectorWorld *world) {
    size_t owner = fuzzBelow(fuzz, world->owner_count);
    struct fakeLock *lock = &world->locks[fuzzBelow(fuzz, world->lock_count)];
    enum lockMode mode = randomMode(fuzz);
    bool is_plain = lock->held > 0 && lock->holds[0].mode == MODE_EXCLUSIVE;
    bool fits = lock->held == 0 || (!is_plain && mode != MODE_EXCLUSIVE);
    if (fits && lock->held < 1 + fuzzBelow(fuzz, 3)) {
        lockHold(lock, detectorOwners[owner].bytes, detectorOwners[owner].length, mode);
    } else {
        if (lock->held == 0) {
            return;
        }
        const struct fakeHold gone = lock->holds[fuzzBelow(fuzz, lock->held)];
        lockRelease(lock, gone.owner, gone.length, gone.mode);
    }
}

static void change(struct fuzz *fuzz, struct detectorWorld *world) {
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

/* Counts for each owner in how many queues it has a position of the graph. */
static void countQueues(const struct detectorWorld *world, size_t *queues) {
    for (size_t lock = 0; lock < world->lock_count; lock++) {
        const struct detectorLine *line = &world->lines[lock];
        bool seen[DETECTOR_MOST_OWNERS] = {false};
        for (size_t at = 0; at < line->count; at++) {
            const struct detectorWait *wait = line->waits[at];
            queues[wait->owner] += wait->in_graph && !seen[wait->owner];
            seen[wait->owner] |= wait->in_graph;
        }
    }
}

static bool waitsForSame(const struct detectorWait *one, const struct detectorWait *other) {
    bool same = one->owner == other->owner && one->lock_count == other->lock_count &&
                (one->request.discipline == MULTIKEY) == (other->request.discipline == MULTIKEY);
    for (size_t i = 0; same && i < one->lock_count; i++) {
        same = one->locks[i] == other->locks[i] && one->modes[i] == other->modes[i];
    }
    return same;
}

/* Asserts that a copy has an original: of the same owner, for the same locks in the same order, in
 * the same modes. */
static void assertCopies(const struct detectorWorld *world) {
    for (size_t i = 0; i < world->wait_count; i++) {
        const struct detectorWait *wait = world->waits[i];
        bool has_original = false;
        for (size_t j = 0; j < world->wait_count; j++) {
            const struct detectorWait *other = world->waits[j];
            has_original |= other->in_graph && !other->request.is_copy && waitsForSame(other, wait);
        }
        assert_true(!wait->request.is_copy || (wait->in_graph && has_original));
    }
}

/* Asserts that a position is a tie if its owner has another position in another queue, and is none
 * if its owner has no other position. If the owner has several, all in one queue, both are correct:
 * the owner may have had one elsewhere. Only positions of the graph count. Copies are no ties. */
static void assertCounts(const struct detectorWorld *world) {
    size_t positions[DETECTOR_MOST_OWNERS] = {0}, in_graph = 0;
    size_t queues[DETECTOR_MOST_OWNERS] = {0};
    for (size_t i = 0; i < world->wait_count; i++) {
        positions[world->waits[i]->owner] +=
            world->waits[i]->in_graph ? world->waits[i]->lock_count : 0;
        in_graph += world->waits[i]->in_graph;
    }
    assert_int_equal(waitgraphSize(&world->graph), in_graph);
    countQueues(world, queues);
    assertCopies(world);
    for (size_t lock = 0; lock < world->lock_count; lock++) {
        const struct detectorLine *line = &world->lines[lock];
        size_t sure = 0, possible = 0, waiting = 0;
        for (size_t at = 0; at < line->count; at++) {
            waiting += line->waits[at]->in_graph;
            const struct detectorWait *wait = line->waits[at];
            bool counts = wait->in_graph && !wait->request.is_copy;
            sure += counts && queues[wait->owner] > 1;
            possible += counts && positions[wait->owner] > 1;
        }
        assert_int_equal(world->locks[lock].queue.in_graph, waiting);
        assert_in_range(world->locks[lock].queue.ties.length, sure, possible);
        assert_null(queuecheckFault(&world->locks[lock].queue));
    }
}

/* ---- newcomers ---- */

/* Asserts that the search finds a cycle if the detector finds one that this request closes; it may
 * also find one through earlier waits of the same owner, if others are behind them. It gives up
 * only if it has a limit of steps. */
static void assertSameResult(struct detectorWorld *world, const struct detectorWait *newcomer,
                             const struct detectorRequest *new_request,
                             const struct lockSearch *how, struct detectorLengths lengths) {
    struct cyclesearchFound found = lockSearch(&world->graph, &newcomer->request, how);
    switch (found.result) {
    case CYCLESEARCH_GAVE_UP:
        assert_true(how->most < DETECTOR_NEVER);
        break;
    case CYCLESEARCH_NO_CYCLE:
        assert_int_equal(lengths.closed, DETECTOR_NEVER);
        break;
    case CYCLESEARCH_CYCLE:
        assert_true(lengths.any != DETECTOR_NEVER && found.cycle->length >= lengths.any);
        assertIsCycle(world, new_request, found.cycle);
        memFree(found.cycle);
        break;
    case CYCLESEARCH_LEFT:
    case CYCLESEARCH_CONTINUES:
        fail_msg("a search without a result");
    }
}

static void assertSameResults(struct fuzz *fuzz, struct detectorWorld *world,
                              const struct detectorWait *newcomer,
                              const struct detectorRequest *new_request,
                              struct detectorLengths lengths) {
    for (int way = 0; way < LOCKS_WAYS; way++) {
        struct lockSearch how = {.way = way, .most = DETECTOR_NEVER, .slice = fuzzBelow(fuzz, 4)};
        assertSameResult(world, newcomer, new_request, &how, lengths);
        how.most = fuzzBelow(fuzz, 20);
        assertSameResult(world, newcomer, new_request, &how, lengths);
    }
}

/* Adds the request as a newcomer. Returns NULL if there is no room. */
static struct detectorWait *addNewcomer(struct detectorWorld *world,
                                        const struct detectorRequest *new_request) {
    bool has_position = hasFairPosition(world, new_request->owner, new_request->locks[0]);
    if (world->wait_count == DETECTOR_MOST_WAITS ||
        (new_request->request.discipline == FAIR && has_position)) {
        return NULL;
    }
    struct detectorWait *wait = newWait(world, new_request);
    enqueue(world, wait, new_request);
    waitgraphAnnounce(&world->graph, &wait->request);
    return wait;
}

static void checkNewcomer(struct fuzz *fuzz, struct detectorWorld *world,
                          const struct detectorRequest *new_request) {
    struct detectorLengths lengths = detectorShortestCycles(world, new_request);
    struct detectorWait *wait = addNewcomer(world, new_request);
    if (wait) {
        assertSameResults(fuzz, world, wait, new_request, lengths);
        endWait(world, world->wait_count - 1);
    }
}

/* ---- searches that are interrupted ---- */

struct disturbed {
    struct fuzz *fuzz;
    struct detectorWorld *world;
    const struct detectorWait *newcomer; /* NULL: it has left */
    /* Others may move to the heads. Not if the newcomer is at one: the detector assumes it there.
     */
    bool may_move;
};

/* Whether the owner's other positions here stay where they are when this one's mode is granted to
 * it: those of multikey requests do, if the lock is of the kind that they want. */
static bool othersOfOwnerStay(const struct detectorWorld *world, const struct detectorWait *granted,
                              size_t lock) {
    const struct detectorLine *line = &world->lines[lock];
    bool is_plain = granted->modes[0] == MODE_EXCLUSIVE;
    for (size_t at = 0; at < line->count; at++) {
        const struct detectorWait *wait = line->waits[at];
        bool wants_plain = detectorModeAt(wait, lock) == MODE_EXCLUSIVE;
        if (wait != granted && wait->owner == granted->owner &&
            (wait->request.discipline != MULTIKEY || wants_plain != is_plain)) {
            return false;
        }
    }
    return true;
}

/* Grants the lock if it is free and this wait is the first in its queue. Not if the owner has other
 * positions there, which would have to move to the head. */
static bool grantIfFirst(struct detectorWorld *world, size_t at) {
    const struct detectorWait *wait = world->waits[at];
    size_t lock = wait->locks[0];
    bool is_first = world->lines[lock].waits[0] == wait && world->locks[lock].held == 0;
    if (!wait->in_graph || wait->lock_count > 1 || !is_first ||
        !othersOfOwnerStay(world, wait, lock)) {
        return false;
    }
    const struct detectorOwner *owner = &detectorOwners[wait->owner];
    enum lockMode mode = wait->modes[0];
    endWait(world, at);
    lockHold(&world->locks[lock], owner->bytes, owner->length, mode);
    return true;
}

static void endOne(struct disturbed *disturbed) {
    struct detectorWorld *world = disturbed->world;
    if (world->wait_count == 0) {
        return;
    }
    size_t at = fuzzBelow(disturbed->fuzz, world->wait_count);
    const struct detectorWait *wait = world->waits[at];
    bool is_newcomer = wait == disturbed->newcomer;
    if (disturbed->may_move && !is_newcomer && fuzzOneIn(disturbed->fuzz, 16)) {
        moveFirst(disturbed->fuzz, world, world->waits[at]);
        return;
    }
    if ((is_newcomer && !fuzzOneIn(disturbed->fuzz, 8)) || grantIfFirst(world, at)) {
        return;
    }
    if (is_newcomer) {
        disturbed->newcomer = NULL;
    }
    if (wait->request.discipline == FAIR && !is_newcomer) {
        detach(world, at);
    } else {
        endWait(world, at);
    }
}

static void endSome(void *data) {
    struct disturbed *disturbed = data;
    for (size_t left = fuzzBelow(disturbed->fuzz, 3); left > 0; left--) {
        endOne(disturbed);
    }
}

static void endNewcomer(struct detectorWorld *world, const struct detectorWait *newcomer) {
    size_t at = 0;
    while (world->waits[at] != newcomer) {
        at++;
    }
    endWait(world, at);
}

static bool isAtAnyHead(const struct detectorRequest *new_request) {
    bool is_at_head = false;
    for (size_t i = 0; i < new_request->lock_count; i++) {
        is_at_head |= new_request->at_head[i];
    }
    return is_at_head;
}

/* Asserts that the result of a search that was disturbed is correct when it ends. */
static void checkDisturbed(struct fuzz *fuzz, struct detectorWorld *world,
                           const struct detectorRequest *new_request) {
    struct detectorWait *newcomer = addNewcomer(world, new_request);
    if (!newcomer) {
        return;
    }
    struct disturbed disturbed = {fuzz, world, newcomer, !isAtAnyHead(new_request)};
    const struct lockSearch how = {.way = (int)fuzzBelow(fuzz, LOCKS_WAYS),
                                   .most = DETECTOR_NEVER,
                                   .slice = 1 + fuzzBelow(fuzz, 3),
                                   .between = endSome,
                                   .data = &disturbed};
    struct cyclesearchFound found = lockSearch(&world->graph, &newcomer->request, &how);
    if (found.result == CYCLESEARCH_CYCLE) {
        assertIsCycle(world, new_request, found.cycle);
        memFree(found.cycle);
    }
    if (!disturbed.newcomer) {
        assert_int_equal(found.result, CYCLESEARCH_LEFT);
        return;
    }
    endNewcomer(world, newcomer);
    struct detectorLengths after = detectorShortestCycles(world, new_request);
    assert_true(found.result == CYCLESEARCH_CYCLE || after.closed == DETECTOR_NEVER);
}

/* ---- newcomers that are in their queues already, with others behind them ---- */

static struct detectorRequest requestOf(const struct detectorWait *wait) {
    struct detectorRequest new_request = {.owner = wait->owner,
                                          .request = wait->request,
                                          .lock_count = wait->lock_count,
                                          .placed = wait};
    memcpy(new_request.locks, wait->locks, sizeof(wait->locks));
    memcpy(new_request.modes, wait->modes, sizeof(wait->modes));
    return new_request;
}

static void checkPlaced(struct fuzz *fuzz, struct detectorWorld *world,
                        const struct detectorWait *wait) {
    const struct detectorRequest new_request = requestOf(wait);
    struct detectorLengths lengths = detectorShortestCycles(world, &new_request);
    assertSameResults(fuzz, world, wait, &new_request, lengths);
}

/* Searches from fair requests that take over their positions, somewhere in the queue. */
static void checkReturns(struct fuzz *fuzz, struct detectorWorld *world) {
    for (size_t i = 0; i < world->wait_count; i++) {
        const struct detectorWait *wait = world->waits[i];
        bool is_detached = !wait->in_graph && wait->request.discipline == FAIR;
        if (is_detached && !holdsAny(world, wait->owner, wait->locks[0])) {
            checkPlaced(fuzz, world, wait);
        }
    }
}

static bool needsNoHead(const struct detectorWorld *world, const struct detectorWait *wait) {
    const struct detectorRequest new_request = requestOf(wait);
    for (size_t i = 0; i < wait->lock_count; i++) {
        if (mustBeAtHead(world, &new_request, i)) {
            return false;
        }
    }
    return true;
}

/* Searches once more from a multikey request, of which one position has moved to the head: it has
 * become an upgrade. */
static void checkUpgrade(struct fuzz *fuzz, struct detectorWorld *world) {
    size_t at = world->wait_count ? fuzzBelow(fuzz, world->wait_count) : 0;
    struct detectorWait *wait = world->wait_count ? world->waits[at] : NULL;
    if (wait && wait->request.discipline == MULTIKEY && needsNoHead(world, wait)) {
        detach(world, at);
        moveFirst(fuzz, world, wait);
        waitgraphAnnounce(&world->graph, &wait->request);
        checkPlaced(fuzz, world, wait);
        wait->in_graph = true;
        waitgraphEnter(&world->graph, &wait->request);
    }
}

static void beginWorld(struct fuzz *fuzz, struct detectorWorld *world) {
    *world = (struct detectorWorld){.owner_count = 3 + fuzzBelow(fuzz, DETECTOR_MOST_OWNERS - 2),
                                    .lock_count = 2 + fuzzBelow(fuzz, DETECTOR_MOST_LOCKS - 1)};
    mapSeed((const uint64_t[2]){fuzzNext(fuzz), fuzzNext(fuzz)});
}

static void endWorld(struct detectorWorld *world, size_t memory_before) {
    while (world->wait_count > 0) {
        endWait(world, world->wait_count - 1);
    }
    assertCounts(world);
    assert_int_equal(memLive(), memory_before);
}

static void every_result_is_that_of_a_detector_without_shortcuts(void **state) {
    (void)state;
    struct fuzz fuzz = fuzzStart("cyclesearch", 50000);
    size_t before = memLive();
    struct detectorWorld world;
    beginWorld(&fuzz, &world);
    for (size_t step = 0; step < fuzz.steps; step++) {
        change(&fuzz, &world);
        assertCounts(&world);
        struct detectorRequest new_request = randomRequest(&fuzz, &world);
        checkNewcomer(&fuzz, &world, &new_request);
        checkReturns(&fuzz, &world);
        checkUpgrade(&fuzz, &world);
        checkDisturbed(&fuzz, &world, &new_request);
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
        UNIT(every_result_is_that_of_a_detector_without_shortcuts),
    };
    return cmocka_run_group_tests_name("fuzz cyclesearch", tests, NULL, NULL);
}
