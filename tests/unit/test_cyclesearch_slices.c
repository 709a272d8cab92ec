/* cyclesearch.[ch]: a search in several calls, between which requests leave, move, and holds end.
 */
#include "core/mem.h"
#include "support/asks.h"
#include "support/unit.h"
#include "support/world.h"

/* What happens after so many calls, once. */
struct event {
    size_t after, calls;
    void (*happens)(struct world *world);
    struct world *world;
};

static void onePause(void *data) {
    struct event *event = data;
    if (event->calls++ == event->after) {
        event->happens(event->world);
    }
}

/* What a search from this newcomer finds, one step at a time, when that happens in the middle of
 * it. */
static struct cyclesearchFound found(struct world *world, const struct wait *newcomer, size_t after,
                                     void (*happens)(struct world *world)) {
    struct event event = {.after = after, .happens = happens, .world = world};
    const struct lockSearch how = {.way = LOCKS_BY_HOLDS_UNPROVEN,
                                   .most = ASKS_NO_BOUND,
                                   .slice = 1,
                                   .between = onePause,
                                   .data = &event};
    struct cyclesearchFound result = lockSearch(&world->graph, &newcomer->request, &how);
    assert_true(event.calls > after); /* or nothing has happened */
    memFree(result.cycle);
    return result;
}

static struct wait *comes(struct world *world, const char *owner, size_t lock) {
    struct wait *wait = worldStands(world, owner, MODE_EXCLUSIVE, lock);
    waitgraphAnnounce(&world->graph, &wait->request);
    return wait;
}

/* Who waits for lock i holds the one before. a, who comes last, holds lock 4, and waits for lock 0.
 */
static struct wait *chain(struct world *world) {
    static const char *const owners[] = {"b", "c", "d", "e"};
    for (size_t i = 0; i < LENGTH_OF(owners); i++) {
        worldHolds(world, owners[i], MODE_EXCLUSIVE, i);
        worldWaits(world, owners[i], MODE_EXCLUSIVE, i + 1);
    }
    worldHolds(world, "a", MODE_EXCLUSIVE, LENGTH_OF(owners));
    return comes(world, "a", 0);
}

static void leave(struct world *world, struct wait *wait) {
    cyclesearchLeave(&world->graph, &wait->request);
    worldWaitEnds(world, wait);
}

static void nothing(struct world *world) {
    (void)world;
}

static void cWaitsNoMore(struct world *world) {
    leave(world, &world->waits[1]);
}

static void cHoldsNoMore(struct world *world) {
    lockRelease(&world->locks[1], "c", 1, MODE_EXCLUSIVE);
    worldHolds(world, "stranger", MODE_EXCLUSIVE, 1);
}

static void theAskerLeaves(struct world *world) {
    leave(world, &world->waits[4]);
}

#define CALLS 12 /* in which the chain is searched */

static void a_cycle_is_found_in_many_calls(void **state) {
    (void)state;
    struct world world = {.count = 0};
    const struct wait *newcomer = chain(&world);
    assert_int_equal(found(&world, newcomer, CALLS, nothing).result, CYCLESEARCH_CYCLE);
    worldEnd(&world);
}

static void whenever_a_wait_of_it_ends_there_is_no_cycle(void **state) {
    (void)state;
    for (size_t after = 0; after <= CALLS; after++) {
        struct world world = {.count = 0};
        const struct wait *newcomer = chain(&world);
        assert_int_equal(found(&world, newcomer, after, cWaitsNoMore).result, CYCLESEARCH_NO_CYCLE);
        worldEnd(&world);
    }
}

/* Of a hold that ends while the cycle is checked it may be too late. */
static void if_a_hold_of_it_ends_there_is_no_cycle(void **state) {
    (void)state;
    for (size_t after = 0; after < CALLS - 4; after++) {
        struct world world = {.count = 0};
        const struct wait *newcomer = chain(&world);
        assert_int_equal(found(&world, newcomer, after, cHoldsNoMore).result, CYCLESEARCH_NO_CYCLE);
        worldEnd(&world);
    }
}

static void whenever_the_asker_leaves_the_search_is_over(void **state) {
    (void)state;
    for (size_t after = 0; after <= CALLS; after++) {
        struct world world = {.count = 0};
        const struct wait *newcomer = chain(&world);
        assert_int_equal(found(&world, newcomer, after, theAskerLeaves).result, CYCLESEARCH_LEFT);
        worldEnd(&world);
    }
}

static void theFirstWaitEnds(struct world *world) {
    leave(world, &world->waits[0]);
}

/* c waits twice for what d holds: the cycle is there still when the first of the two has ended. */
static void another_wait_of_the_same_owner_keeps_the_cycle(void **state) {
    (void)state;
    for (size_t after = 0; after <= CALLS; after++) {
        struct world world = {.count = 0};
        worldWaits(&world, "c", MODE_EXCLUSIVE, 2);
        const struct wait *newcomer = chain(&world);
        assert_int_equal(found(&world, newcomer, after, theFirstWaitEnds).result,
                         CYCLESEARCH_CYCLE);
        worldEnd(&world);
    }
}

/* Whenever this happens, the cycle that is there is found. Until the search is over without it. */
static void assertFoundWhenever(struct wait *(*begin)(struct world *world), size_t calls,
                                void (*happens)(struct world *world)) {
    for (size_t after = 0; after < calls; after++) {
        struct world world = {.count = 0};
        const struct wait *newcomer = begin(&world);
        assert_int_equal(found(&world, newcomer, after, happens).result, CYCLESEARCH_CYCLE);
        worldEnd(&world);
    }
}

/* a waits for lock 0 already, ahead of b, who waits for what a holds. When that wait ends, the new
 * one is behind b. */
static struct wait *comesOnceMore(struct world *world) {
    worldWaits(world, "a", MODE_READ, 0);
    worldWaits(world, "b", MODE_EXCLUSIVE, 0);
    worldWaits(world, "b", MODE_EXCLUSIVE, 1);
    worldHolds(world, "a", MODE_EXCLUSIVE, 1);
    return comes(world, "a", 0);
}

#define CALLS_ONCE_MORE 6 /* until it is known that nobody is in its way */

static void whenever_the_askers_older_wait_ends_the_new_one_closes_the_cycle(void **state) {
    (void)state;
    assertFoundWhenever(comesOnceMore, CALLS_ONCE_MORE, theFirstWaitEnds);
}

/* a waits for lock 0, ahead of x, and for lock 1; it comes for lock 2, which x holds. */
static struct wait *comesForAThird(struct world *world) {
    worldWaits(world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(world, "a", MODE_EXCLUSIVE, 0);
    worldWaits(world, "x", MODE_EXCLUSIVE, 0);
    worldHolds(world, "x", MODE_EXCLUSIVE, 2);
    worldHolds(world, "stranger", MODE_EXCLUSIVE, 0);
    worldHolds(world, "other stranger", MODE_EXCLUSIVE, 1);
    return comes(world, "a", 2);
}

#define CALLS_FOR_A_THIRD 12

/* Its wait for lock 0 is no tie any more, and so not among those that are walked. */
static void whenever_the_asker_stops_waiting_elsewhere_it_is_ahead_still(void **state) {
    (void)state;
    assertFoundWhenever(comesForAThird, CALLS_FOR_A_THIRD, theFirstWaitEnds);
}

/* a comes to read what u and v wait to write, and h, who waits for a, reads. */
static struct wait *comesToRead(struct world *world) {
    worldHolds(world, "h", MODE_READ, 0);
    worldHolds(world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(world, "h", MODE_EXCLUSIVE, 1);
    worldWaits(world, "u", MODE_WRITE, 0);
    worldWaits(world, "v", MODE_WRITE, 0);
    struct wait *wait = worldStands(world, "a", MODE_READ, 0);
    waitgraphAnnounce(&world->graph, &wait->request);
    return wait;
}

#define CALLS_TO_READ 14

static void vWaitsNoMore(struct world *world) {
    leave(world, &world->waits[2]);
}

/* v stands for u, who is ahead of it. */
static void whenever_the_last_writer_leaves_those_ahead_are_reached(void **state) {
    (void)state;
    assertFoundWhenever(comesToRead, CALLS_TO_READ, vWaitsNoMore);
}

/* c waits for b already, and stands behind it now; at the head it is in its way. */
static void theAskerMoves(struct world *world) {
    struct position *position = &world->waits[2].positions[0];
    cyclesearchMove(&world->graph, position);
    waitqueueMoveFirst(position);
}

static void wherever_the_asker_moves_it_is_searched_from_there(void **state) {
    (void)state;
    for (size_t after = 0; after < 3; after++) {
        struct world world = {.count = 0};
        worldHolds(&world, "x", MODE_EXCLUSIVE, 0);
        worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
        worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
        worldWaits(&world, "c", MODE_EXCLUSIVE, 1);
        struct wait *newcomer = comes(&world, "c", 0);
        assert_int_equal(found(&world, newcomer, after, theAskerMoves).result, CYCLESEARCH_CYCLE);
        worldEnd(&world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_cycle_is_found_in_many_calls),
        UNIT(whenever_a_wait_of_it_ends_there_is_no_cycle),
        UNIT(if_a_hold_of_it_ends_there_is_no_cycle),
        UNIT(whenever_the_asker_leaves_the_search_is_over),
        UNIT(whenever_the_askers_older_wait_ends_the_new_one_closes_the_cycle),
        UNIT(whenever_the_asker_stops_waiting_elsewhere_it_is_ahead_still),
        UNIT(whenever_the_last_writer_leaves_those_ahead_are_reached),
        UNIT(another_wait_of_the_same_owner_keeps_the_cycle),
        UNIT(wherever_the_asker_moves_it_is_searched_from_there),
    };
    return cmocka_run_group_tests_name("cyclesearch, in several calls", tests, NULL, NULL);
}
