/* Random worlds of locks, holds and waits, and in each of them random requests that would wait:
 * what the search says of them, against a detector that knows no shortcut.
 *
 * The worlds need not be such as grants could lead to: a lock may have two writers, an owner may
 * wait for itself, and cycles may be there already. Only what a search may count on is kept to: an
 * owner has one fair position in a queue, whoever holds a lock asks for it at the head, and a plain
 * lock has one holder. */
#include <stdlib.h>
#include <string.h>

#include "core/cyclesearch.h"
#include "core/mem.h"
#include "core/queuecheck.h"
#include "support/detector.h"
#include "support/locks.h"
#include "support/unit.h"

/* ---- the detector's question to the graph ---- */

static size_t ownerOfStep(const struct cyclepathStep *step) {
    for (size_t i = 0; i < DETECTOR_MOST_OWNERS; i++) {
        if (detectorOwners[i].length == step->owner_length &&
            memcmp(detectorOwners[i].bytes, step->owner, step->owner_length) == 0) {
            return i;
        }
    }
    fail_msg("a step of nobody");
    return DETECTOR_NEVER;
}

/* Every step is a wait, and the last leads back to the asker. */
static void assertIsCycle(struct detectorWorld *world, const struct detectorAsk *ask,
                          const struct cyclepathCycle *cycle) {
    assert_int_equal(ownerOfStep(&cycle->steps[0]), ask->owner);
    for (size_t i = 0; i < cycle->length; i++) {
        const struct cyclepathStep *step = &cycle->steps[i];
        size_t one = ownerOfStep(step);
        size_t other = ownerOfStep(&cycle->steps[(i + 1) % cycle->length]);
        size_t lock = (size_t)(lockOfQueue(step->queue) - world->locks);
        assert_true(lock < world->lock_count);
        bool waits = detectorWaitsAt(world, ask, one, other, lock, step->behind);
        assert_true(waits ||
                    (i == 0 && detectorAskerWaitsAt(world, ask, other, lock, step->behind)));
    }
}

/* ---- the worlds ---- */

/* Of what the search sees: permits are no edges. */
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

/* Different ones: several for a multikey request, one for any other. */
static void chooseLocks(struct fuzz *fuzz, const struct detectorWorld *world,
                        struct detectorAsk *ask) {
    size_t count = ask->request.discipline == MULTIKEY ? 1 + fuzzBelow(fuzz, world->lock_count) : 1;
    size_t lock = fuzzBelow(fuzz, world->lock_count);
    for (ask->lock_count = 0; ask->lock_count < count; ask->lock_count++) {
        ask->locks[ask->lock_count] = lock;
        lock = lock + 1 < world->lock_count ? lock + 1 : 0;
    }
}

/* A request for several does not wait for those that its owner holds. */
static void leaveOutHeld(const struct detectorWorld *world, struct detectorAsk *ask) {
    size_t kept = 0;
    for (size_t i = 0; i < ask->lock_count && ask->request.discipline == MULTIKEY; i++) {
        if (!detectorHoldsPlain(world, ask->owner, ask->locks[i])) {
            ask->locks[kept++] = ask->locks[i];
        }
    }
    if (kept > 0) {
        ask->lock_count = kept;
    } else if (ask->request.discipline == MULTIKEY) {
        ask->request.discipline = ORDERED;
        ask->lock_count = 1;
    }
}

static struct detectorAsk randomAsk(struct fuzz *fuzz, const struct detectorWorld *world) {
    static const enum discipline disciplines[] = {PLAIN, ORDERED, ORDERED, FAIR, MULTIKEY};
    struct detectorAsk ask = {.owner = fuzzBelow(fuzz, world->owner_count)};
    ask.request = (struct waitRequest){
        .owner = detectorOwners[ask.owner].bytes,
        .owner_length = detectorOwners[ask.owner].length,
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

static struct detectorWait *newWait(struct detectorWorld *world, const struct detectorAsk *ask) {
    size_t length = detectorOwners[ask->owner].length;
    struct detectorWait *wait = calloc(1, sizeof(*wait) + length); /* not a byte more */
    assert_non_null(wait);
    memcpy(wait->bytes, detectorOwners[ask->owner].bytes, length);
    wait->request = ask->request;
    wait->request.owner = wait->bytes;
    wait->owner = ask->owner;
    world->waits[world->wait_count++] = wait;
    return wait;
}

static void stand(struct detectorWorld *world, struct detectorWait *wait, size_t lock, bool first) {
    struct position *position = &wait->positions[wait->lock_count];
    struct waitqueue *queue = &world->locks[lock].queue;
    wait->locks[wait->lock_count++] = lock;
    if (first) {
        waitqueueAddFirst(queue, position, &wait->request);
    } else {
        waitqueueAdd(queue, position, &wait->request);
    }
    insertAt(&world->lines[lock], first ? 0 : world->lines[lock].count, wait);
}

static bool standsIn(const struct detectorWait *wait, size_t lock) {
    for (size_t i = 0; i < wait->lock_count; i++) {
        if (wait->locks[i] == lock) {
            return true;
        }
    }
    return false;
}

static void beginToWait(struct fuzz *fuzz, struct detectorWorld *world) {
    struct detectorAsk ask = randomAsk(fuzz, world);
    bool has_place = hasFairPosition(world, ask.owner, ask.locks[0]);
    if (world->wait_count == DETECTOR_MOST_WAITS || (ask.request.discipline == FAIR && has_place)) {
        return;
    }
    if (ask.request.discipline == ORDERED && fuzzOneIn(fuzz, 4)) {
        ask.request.mode = MODE_SEMAPHORE;
    }
    struct detectorWait *wait = newWait(world, &ask);
    for (size_t i = 0; i < ask.lock_count; i++) {
        stand(world, wait, ask.locks[i], ask.first);
    }
    bool is_semaphore = ask.request.mode == MODE_SEMAPHORE;
    wait->in_graph = !is_semaphore && !(ask.request.discipline == FAIR && fuzzOneIn(fuzz, 3));
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

/* In how many queues each owner stands, as far as the graph knows. */
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

/* A copy has an original: of the same owner, for the same locks in the same order. */
static void assertCopies(const struct detectorWorld *world) {
    for (size_t i = 0; i < world->wait_count; i++) {
        const struct detectorWait *wait = world->waits[i];
        bool has_original = false;
        for (size_t j = 0; j < world->wait_count; j++) {
            const struct detectorWait *other = world->waits[j];
            bool is_multikey = other->request.discipline == MULTIKEY;
            has_original |=
                other->in_graph && !other->request.is_copy && other->owner == wait->owner &&
                other->request.mode == wait->request.mode &&
                is_multikey == (wait->request.discipline == MULTIKEY) &&
                other->lock_count == wait->lock_count &&
                memcmp(other->locks, wait->locks, wait->lock_count * sizeof(wait->locks[0])) == 0;
        }
        assert_true(!wait->request.is_copy || (wait->in_graph && has_original));
    }
}

/* A position is a tie if its owner stands in another queue, too, and none if it stands nowhere
 * else; if all stand in one queue, either, as they may have stood elsewhere. It counts as long as
 * it is in the graph. Copies are no ties. */
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

/* Finds a cycle exactly when the detector does of the request that the newcomer made; or another
 * one, through waits that its owner has made before, whenever others have stood behind. Gives up
 * only if it is given few steps. */
static void assertSameAnswer(struct detectorWorld *world, const struct detectorWait *newcomer,
                             const struct detectorAsk *ask, const struct lockSearch *how,
                             struct detectorLengths lengths) {
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
        assertIsCycle(world, ask, found.cycle);
        memFree(found.cycle);
        break;
    case CYCLESEARCH_LEFT:
    case CYCLESEARCH_CONTINUES:
        fail_msg("a search without an end");
    }
}

static void assertSameAnswers(struct fuzz *fuzz, struct detectorWorld *world,
                              const struct detectorWait *newcomer, const struct detectorAsk *ask,
                              struct detectorLengths lengths) {
    for (int way = 0; way < LOCKS_WAYS; way++) {
        struct lockSearch how = {.way = way, .most = DETECTOR_NEVER, .slice = fuzzBelow(fuzz, 4)};
        assertSameAnswer(world, newcomer, ask, &how, lengths);
        how.most = fuzzBelow(fuzz, 20);
        assertSameAnswer(world, newcomer, ask, &how, lengths);
    }
}

/* Comes to the end of its queues, or to their heads; and to those of what its owner holds. NULL if
 * there is no room for it. */
static struct detectorWait *comes(struct detectorWorld *world, const struct detectorAsk *ask) {
    bool has_place = hasFairPosition(world, ask->owner, ask->locks[0]);
    if (world->wait_count == DETECTOR_MOST_WAITS ||
        (ask->request.discipline == FAIR && has_place)) {
        return NULL;
    }
    struct detectorWait *wait = newWait(world, ask);
    for (size_t i = 0; i < ask->lock_count; i++) {
        stand(world, wait, ask->locks[i], ask->first);
    }
    for (size_t lock = 0; lock < world->lock_count && wait->request.discipline == MULTIKEY;
         lock++) {
        if (detectorHoldsPlain(world, ask->owner, lock) && !standsIn(wait, lock)) {
            stand(world, wait, lock, ask->first);
        }
    }
    waitgraphAnnounce(&world->graph, &wait->request);
    return wait;
}

static void checkNewcomer(struct fuzz *fuzz, struct detectorWorld *world,
                          const struct detectorAsk *ask) {
    struct detectorLengths lengths = detectorShortestCycles(world, ask);
    struct detectorWait *wait = comes(world, ask);
    if (wait) {
        assertSameAnswers(fuzz, world, wait, ask, lengths);
        endWait(world, world->wait_count - 1);
    }
}

/* ---- searches that are interrupted ---- */

struct disturbed {
    struct fuzz *fuzz;
    struct detectorWorld *world;
    const struct detectorWait *newcomer; /* NULL: it has left */
    bool may_move; /* the newcomer does not stand at the heads, where the detector takes it to be */
};

static bool standsOnceIn(const struct detectorWorld *world, size_t owner, size_t lock) {
    size_t count = 0;
    for (size_t at = 0; at < world->lines[lock].count; at++) {
        count += world->lines[lock].waits[at]->owner == owner;
    }
    return count == 1;
}

/* The lock is free, and whoever stands first gets it; but nobody whose other positions there would
 * have to move to the head. */
static bool grants(struct detectorWorld *world, size_t at) {
    const struct detectorWait *wait = world->waits[at];
    size_t lock = wait->locks[0];
    bool is_first = world->lines[lock].waits[0] == wait && world->locks[lock].held == 0;
    if (!wait->in_graph || wait->lock_count > 1 || !is_first ||
        !standsOnceIn(world, wait->owner, lock)) {
        return false;
    }
    const struct detectorOwner *owner = &detectorOwners[wait->owner];
    enum lockMode mode = wait->request.mode;
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
    if ((is_newcomer && !fuzzOneIn(disturbed->fuzz, 8)) || grants(world, at)) {
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

/* What it finds is true at the end. */
static void checkDisturbed(struct fuzz *fuzz, struct detectorWorld *world,
                           const struct detectorAsk *ask) {
    struct detectorWait *newcomer = comes(world, ask);
    if (!newcomer) {
        return;
    }
    struct disturbed disturbed = {fuzz, world, newcomer, !ask->first};
    const struct lockSearch how = {.way = (int)fuzzBelow(fuzz, LOCKS_WAYS),
                                   .most = DETECTOR_NEVER,
                                   .slice = 1 + fuzzBelow(fuzz, 3),
                                   .between = endSome,
                                   .data = &disturbed};
    struct cyclesearchFound found = lockSearch(&world->graph, &newcomer->request, &how);
    if (found.result == CYCLESEARCH_CYCLE) {
        assertIsCycle(world, ask, found.cycle);
        memFree(found.cycle);
    }
    if (!disturbed.newcomer) {
        assert_int_equal(found.result, CYCLESEARCH_LEFT);
        return;
    }
    endNewcomer(world, newcomer);
    struct detectorLengths after = detectorShortestCycles(world, ask);
    assert_true(found.result == CYCLESEARCH_CYCLE || after.closed == DETECTOR_NEVER);
}

/* It has taken a position over somewhere in the queue. */
static void checkReturns(struct fuzz *fuzz, struct detectorWorld *world) {
    for (size_t i = 0; i < world->wait_count; i++) {
        const struct detectorWait *wait = world->waits[i];
        bool is_detached = !wait->in_graph && wait->request.discipline == FAIR;
        if (is_detached && !holdsAny(world, wait->owner, wait->locks[0])) {
            struct detectorAsk ask = {
                .owner = wait->owner, .request = wait->request, .locks = {wait->locks[0]}};
            ask.lock_count = 1;
            struct detectorLengths lengths = detectorShortestCycles(world, &ask);
            assertSameAnswers(fuzz, world, wait, &ask, lengths);
        }
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

static void every_answer_is_that_of_a_detector_without_shortcuts(void **state) {
    (void)state;
    struct fuzz fuzz = fuzzStart("cyclesearch", 50000);
    size_t before = memLive();
    struct detectorWorld world;
    beginWorld(&fuzz, &world);
    for (size_t step = 0; step < fuzz.steps; step++) {
        change(&fuzz, &world);
        assertCounts(&world);
        struct detectorAsk ask = randomAsk(&fuzz, &world);
        checkNewcomer(&fuzz, &world, &ask);
        checkReturns(&fuzz, &world);
        checkDisturbed(&fuzz, &world, &ask);
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
    return cmocka_run_group_tests_name("fuzz cyclesearch", tests, NULL, NULL);
}
