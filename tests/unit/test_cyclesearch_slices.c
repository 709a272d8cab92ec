/* cyclesearch.[ch]: a search in several calls, between which requests leave or move, and holds end.
 */
#include "core/mem.h"
#include "support/newrequest.h"
#include "support/unit.h"
#include "support/world.h"

/* Something that happens once, after a number of calls. */
struct event {
    size_t after, calls;
    void (*action)(struct world *world);
    struct world *world;
};

static void afterSlice(void *data) {
    struct event *event = data;
    if (event->calls++ == event->after) {
        event->action(event->world);
    }
}

/* The result of a search from this newcomer, one step in each call, with this action after `after`
 * calls. */
static struct cyclesearchFound search(struct world *world, const struct wait *newcomer,
                                      size_t after, void (*action)(struct world *world)) {
    struct event event = {.after = after, .action = action, .world = world};
    const struct lockSearch how = {.way = LOCKS_BY_HOLDS_UNPROVEN,
                                   .most = NEWREQUEST_NO_LIMIT,
                                   .slice = 1,
                                   .between = afterSlice,
                                   .data = &event};
    struct cyclesearchFound result = lockSearch(&world->graph, &newcomer->request, &how);
    assert_true(event.calls > after); /* or the action has not run */
    memFree(result.cycle);
    return result;
}

static struct wait *addNewcomer(struct world *world, const char *owner, size_t lock) {
    struct wait *wait = worldQueue(world, owner, MODE_EXCLUSIVE, lock);
    waitgraphAnnounce(&world->graph, &wait->request);
    return wait;
}

/* The owner that waits for lock i holds the one before. a, the newcomer, holds lock 4, and waits
 * for lock 0. */
static struct wait *chain(struct world *world) {
    static const char *const owners[] = {"b", "c", "d", "e"};
    for (size_t i = 0; i < LENGTH_OF(owners); i++) {
        worldHolds(world, owners[i], MODE_EXCLUSIVE, i);
        worldWaits(world, owners[i], MODE_EXCLUSIVE, i + 1);
    }
    worldHolds(world, "a", MODE_EXCLUSIVE, LENGTH_OF(owners));
    return addNewcomer(world, "a", 0);
}

static void leave(struct world *world, struct wait *wait) {
    cyclesearchLeave(&world->graph, &wait->request);
    worldWaitEnds(world, wait);
}

static void doNothing(struct world *world) {
    (void)world;
}

static void endWaitOfC(struct world *world) {
    leave(world, &world->waits[1]);
}

static void endHoldOfC(struct world *world) {
    lockRelease(&world->locks[1], "c", 1, MODE_EXCLUSIVE);
    worldHolds(world, "stranger", MODE_EXCLUSIVE, 1);
}

static void removeAsker(struct world *world) {
    leave(world, &world->waits[4]);
}

#define CALLS 12 /* that searching the chain takes */

static void a_cycle_is_found_in_many_calls(void **state) {
    (void)state;
    struct world world = {.count = 0};
    const struct wait *newcomer = chain(&world);
    assert_int_equal(search(&world, newcomer, CALLS, doNothing).result, CYCLESEARCH_CYCLE);
    worldEnd(&world);
}

static void there_is_no_cycle_whenever_one_of_its_waits_ends(void **state) {
    (void)state;
    for (size_t after = 0; after <= CALLS; after++) {
        struct world world = {.count = 0};
        const struct wait *newcomer = chain(&world);
        assert_int_equal(search(&world, newcomer, after, endWaitOfC).result, CYCLESEARCH_NO_CYCLE);
        worldEnd(&world);
    }
}

/* If a hold ends while the search checks the cycle, the search may not notice it any more. */
static void there_is_no_cycle_if_one_of_its_holds_ends(void **state) {
    (void)state;
    for (size_t after = 0; after < CALLS - 4; after++) {
        struct world world = {.count = 0};
        const struct wait *newcomer = chain(&world);
        assert_int_equal(search(&world, newcomer, after, endHoldOfC).result, CYCLESEARCH_NO_CYCLE);
        worldEnd(&world);
    }
}

/* ---- an owner acquires a lock that it waits for ---- */

static void letORead(struct world *world) {
    worldHolds(world, "o", MODE_READ, 0);
}

/* a waits for o, o waits for lock 0 behind x, and x for a. If o reads lock 0, it no longer waits
 * behind x there. */
static enum cyclesearchResult searchWhileOReads(size_t after) {
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_WRITE, 1);
    worldHolds(&world, "h", MODE_WRITE, 2);
    worldHolds(&world, "o", MODE_WRITE, 3);
    worldWaitsForBoth(&world, "x", worldToRead(0), worldToWrite(1));
    worldWaitsForBoth(&world, "o", worldToWrite(0), worldToWrite(2));
    struct wait *newcomer = worldQueue(&world, "a", MODE_WRITE, 3);
    waitgraphAnnounce(&world.graph, &newcomer->request);
    enum cyclesearchResult result = search(&world, newcomer, after, letORead).result;
    worldEnd(&world);
    return result;
}

/* The cycle may be reported until it is checked, in the last call. */
static void
there_is_no_cycle_if_an_owner_in_it_acquires_what_it_waits_for_behind_others(void **state) {
    (void)state;
    for (size_t after = 0; after < 16; after++) {
        assert_int_equal(searchWhileOReads(after), CYCLESEARCH_NO_CYCLE);
    }
}

/* o reads lock 0 already, but its second request there is no re-entry: it waits behind w. */
static void an_owner_may_wait_where_another_request_of_its_own_is_a_reentry(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "h", MODE_WRITE, 1);
    worldHolds(&world, "o", MODE_WRITE, 2);
    worldHolds(&world, "o", MODE_READ, 0);
    worldHolds(&world, "a", MODE_WRITE, 3);
    worldWaitsForBoth(&world, "w", worldToWrite(0), worldToWrite(3));
    worldWaitsForBoth(&world, "o", worldToRead(0), worldToRead(1));
    worldWaits(&world, "o", MODE_WRITE, 0);
    struct wait *newcomer = worldQueue(&world, "a", MODE_READ, 2);
    waitgraphAnnounce(&world.graph, &newcomer->request);
    assert_int_equal(search(&world, newcomer, 1, doNothing).result, CYCLESEARCH_CYCLE);
    worldEnd(&world);
}

static void the_search_ends_whenever_the_asker_leaves(void **state) {
    (void)state;
    for (size_t after = 0; after <= CALLS; after++) {
        struct world world = {.count = 0};
        const struct wait *newcomer = chain(&world);
        assert_int_equal(search(&world, newcomer, after, removeAsker).result, CYCLESEARCH_LEFT);
        worldEnd(&world);
    }
}

static void endFirstWait(struct world *world) {
    leave(world, &world->waits[0]);
}

/* c waits twice for what d holds: the cycle still exists when the first of these waits has ended.
 */
static void another_wait_of_the_same_owner_keeps_the_cycle(void **state) {
    (void)state;
    for (size_t after = 0; after <= CALLS; after++) {
        struct world world = {.count = 0};
        worldWaits(&world, "c", MODE_EXCLUSIVE, 2);
        const struct wait *newcomer = chain(&world);
        assert_int_equal(search(&world, newcomer, after, endFirstWait).result, CYCLESEARCH_CYCLE);
        worldEnd(&world);
    }
}

/* Asserts that the cycle is found, whenever the action runs before the search has ended without it:
 * after 0 to `calls` - 1 calls. */
static void assertFoundWhenever(struct wait *(*begin)(struct world *world), size_t calls,
                                void (*action)(struct world *world)) {
    for (size_t after = 0; after < calls; after++) {
        struct world world = {.count = 0};
        const struct wait *newcomer = begin(&world);
        assert_int_equal(search(&world, newcomer, after, action).result, CYCLESEARCH_CYCLE);
        worldEnd(&world);
    }
}

/* a already waits for lock 0, ahead of b, which waits for what a holds. When that wait ends, a's
 * new wait is behind b. */
static struct wait *askerWaitsTwice(struct world *world) {
    worldWaits(world, "a", MODE_READ, 0);
    worldWaits(world, "b", MODE_EXCLUSIVE, 0);
    worldWaits(world, "b", MODE_EXCLUSIVE, 1);
    worldHolds(world, "a", MODE_EXCLUSIVE, 1);
    return addNewcomer(world, "a", 0);
}

#define CALLS_WAITS_TWICE 6 /* until the search knows that a waits for no owner */

static void the_new_wait_closes_the_cycle_whenever_the_older_wait_ends(void **state) {
    (void)state;
    assertFoundWhenever(askerWaitsTwice, CALLS_WAITS_TWICE, endFirstWait);
}

/* a waits for lock 0, ahead of x, and for lock 1; its new wait is for lock 2, which x holds. */
static struct wait *askerWaitsForThree(struct world *world) {
    worldWaits(world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(world, "a", MODE_EXCLUSIVE, 0);
    worldWaits(world, "x", MODE_EXCLUSIVE, 0);
    worldHolds(world, "x", MODE_EXCLUSIVE, 2);
    worldHolds(world, "stranger", MODE_EXCLUSIVE, 0);
    worldHolds(world, "other stranger", MODE_EXCLUSIVE, 1);
    return addNewcomer(world, "a", 2);
}

#define CALLS_WAITS_FOR_THREE 12

/* Its wait for lock 0 is then no tie any more, so the walk over the ties does not find it. */
static void the_asker_is_still_ahead_whenever_its_wait_elsewhere_ends(void **state) {
    (void)state;
    assertFoundWhenever(askerWaitsForThree, CALLS_WAITS_FOR_THREE, endFirstWait);
}

/* a requests to read what u and v wait to write. h, which waits for a, reads it. */
static struct wait *askerReads(struct world *world) {
    worldHolds(world, "h", MODE_READ, 0);
    worldHolds(world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(world, "h", MODE_EXCLUSIVE, 1);
    worldWaits(world, "u", MODE_WRITE, 0);
    worldWaits(world, "v", MODE_WRITE, 0);
    struct wait *wait = worldQueue(world, "a", MODE_READ, 0);
    waitgraphAnnounce(&world->graph, &wait->request);
    return wait;
}

#define CALLS_READS 14

static void endWaitOfV(struct world *world) {
    leave(world, &world->waits[2]);
}

/* The search reached v in place of u, which is ahead of it. */
static void the_owners_ahead_are_reached_whenever_the_last_writer_leaves(void **state) {
    (void)state;
    assertFoundWhenever(askerReads, CALLS_READS, endWaitOfV);
}

/* c already waits for b, and its new position is behind b's. At the head, b waits for it. */
static void moveAsker(struct world *world) {
    struct position *position = &world->waits[2].positions[0];
    cyclesearchMove(&world->graph, position);
    waitqueueMoveFirst(position);
}

static void the_search_starts_from_where_the_asker_has_moved(void **state) {
    (void)state;
    for (size_t after = 0; after < 3; after++) {
        struct world world = {.count = 0};
        worldHolds(&world, "x", MODE_EXCLUSIVE, 0);
        worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
        worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
        worldWaits(&world, "c", MODE_EXCLUSIVE, 1);
        struct wait *newcomer = addNewcomer(&world, "c", 0);
        assert_int_equal(search(&world, newcomer, after, moveAsker).result, CYCLESEARCH_CYCLE);
        worldEnd(&world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_cycle_is_found_in_many_calls),
        UNIT(there_is_no_cycle_whenever_one_of_its_waits_ends),
        UNIT(there_is_no_cycle_if_one_of_its_holds_ends),
        UNIT(there_is_no_cycle_if_an_owner_in_it_acquires_what_it_waits_for_behind_others),
        UNIT(an_owner_may_wait_where_another_request_of_its_own_is_a_reentry),
        UNIT(the_search_ends_whenever_the_asker_leaves),
        UNIT(the_new_wait_closes_the_cycle_whenever_the_older_wait_ends),
        UNIT(the_asker_is_still_ahead_whenever_its_wait_elsewhere_ends),
        UNIT(the_owners_ahead_are_reached_whenever_the_last_writer_leaves),
        UNIT(another_wait_of_the_same_owner_keeps_the_cycle),
        UNIT(the_search_starts_from_where_the_asker_has_moved),
    };
    return cmocka_run_group_tests_name("cyclesearch, in several calls", tests, NULL, NULL);
}
