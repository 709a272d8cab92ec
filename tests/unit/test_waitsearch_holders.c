/* cyclesearch.[ch]: cycles through those who hold what others wait for, and who is who. */
#include "core/mem.h"
#include "support/asks.h"
#include "support/unit.h"
#include "support/world.h"

static void without_waits_nobody_is_asked_for_holders(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "b", MODE_WRITE, 0);
    struct ask ask = asks("a", MODE_WRITE, 0);
    size_t calls = 0, steps = 0;
    assert_int_equal(asksFind(&world, &ask, &steps, LOCKS_BY_HOLDS, &calls, NULL),
                     CYCLESEARCH_NO_CYCLE);
    ask.first = true;
    assert_int_equal(asksFind(&world, &ask, &steps, LOCKS_BY_HOLDS, &calls, NULL),
                     CYCLESEARCH_NO_CYCLE);
    assert_int_equal(calls, 0);
    worldEnd(&world);
}

static void two_owners_who_hold_what_the_other_wants(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "a", MODE_EXCLUSIVE, 1);
    asksAssertAnswer(&world, asks("b", MODE_EXCLUSIVE, 0), "b 0 a, a 1 b");
    asksAssertNoCycle(&world, asks("c", MODE_EXCLUSIVE, 0));
    asksAssertNoCycle(&world, asks("b", MODE_EXCLUSIVE, 2));
    worldAssertNoTies(&world);
    worldEnd(&world);
}

static void a_chain_of_three(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_WRITE, 1);
    worldHolds(&world, "c", MODE_READ, 2);
    worldWaits(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_WRITE, 2);
    asksAssertAnswer(&world, asks("c", MODE_EXCLUSIVE, 0), "c 0 a, a 1 b, b 2 c");
    asksAssertNoCycle(&world, asks("d", MODE_EXCLUSIVE, 0)); /* the chain leads to c, not to d */
    worldEnd(&world);
}

static void readers_are_not_in_each_others_way(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_READ, 0);
    worldHolds(&world, "b", MODE_READ, 1);
    struct wait *reads = worldWaits(&world, "a", MODE_READ, 1);
    asksAssertNoCycle(&world, asks("b", MODE_WRITE, 0)); /* a, who holds 0, waits for no reader */
    worldWaitEnds(&world, reads);
    worldWaits(&world, "a", MODE_WRITE, 1);
    asksAssertNoCycle(&world, asks("b", MODE_READ, 0));
    asksAssertAnswer(&world, asks("b", MODE_WRITE, 0), "b 0 a, a 1 b");
    worldEnd(&world);
}

static void each_mode_is_looked_at_by_itself(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_READ, 0);
    worldHolds(&world, "b", MODE_READ, 1);
    worldHolds(&world, "c", MODE_READ, 1);
    worldWaits(&world, "b", MODE_READ, 0); /* waits for nobody who is in the graph */
    worldWaits(&world, "c", MODE_WRITE, 0);
    asksAssertAnswer(&world, asks("a", MODE_WRITE, 1), "a 1 c, c 0 a");
    worldEnd(&world);
}

static void an_owner_is_not_in_its_own_way(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_READ, 0);
    worldHolds(&world, "a", MODE_EXCLUSIVE, 2);
    worldHolds(&world, "b", MODE_READ, 0);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 1);
    asksAssertNoCycle(&world, asksFirst("a", MODE_WRITE, 0));
    asksAssertNoCycle(&world, asks("a", MODE_EXCLUSIVE, 2));
    worldEnd(&world);
}

static void whoever_has_left_waits_for_nobody(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    struct wait *wait = worldWaits(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "x", MODE_EXCLUSIVE, 3); /* so that the graph is not empty */
    asksAssertAnswer(&world, asks("b", MODE_EXCLUSIVE, 0), "b 0 a, a 1 b");
    worldWaitEnds(&world, wait);
    asksAssertNoCycle(&world, asks("b", MODE_EXCLUSIVE, 0));
    assert_int_equal(waitgraphSize(&world.graph), 1);
    worldEnd(&world);
}

static void a_place_without_a_client_waits_for_nobody(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    struct wait *wait = worldWaits(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "x", MODE_EXCLUSIVE, 3);
    waitgraphLeave(&world.graph, &wait->request);
    asksAssertNoCycle(&world, asks("b", MODE_EXCLUSIVE, 0));
    waitgraphEnter(&world.graph, &wait->request); /* and it may come back */
    asksAssertAnswer(&world, asks("b", MODE_EXCLUSIVE, 0), "b 0 a, a 1 b");
    worldEnd(&world);
}

static void the_shortest_cycle_is_told(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "b", MODE_READ, 0);
    worldHolds(&world, "d", MODE_READ, 0);
    worldHolds(&world, "c", MODE_EXCLUSIVE, 1);
    worldHolds(&world, "a", MODE_EXCLUSIVE, 2);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 1); /* b -> c -> a, and d -> a */
    worldWaits(&world, "c", MODE_EXCLUSIVE, 2);
    worldWaits(&world, "d", MODE_EXCLUSIVE, 2);
    asksAssertAnswer(&world, asks("a", MODE_WRITE, 0), "a 0 d, d 2 a");
    worldEnd(&world);
}

static void a_cycle_of_others_is_not_followed_for_ever(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "b", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "c", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "c", MODE_EXCLUSIVE, 0);
    asksAssertNoCycle(&world, asks("a", MODE_EXCLUSIVE, 0));
    worldEnd(&world);
}

/* ---- who is who ---- */

static void owners_are_bytes(void **state) {
    (void)state;
    struct world world = {.count = 0};
    static const char a_x[] = "a\0x", a_y[] = "a\0y";
    struct waitRequest request = worldRequest(a_x, MODE_WRITE);
    request.owner_length = 3;
    struct wait *wait = worldStandsFor(&world, request, 1);
    waitgraphEnter(&world.graph, &wait->request);
    lockHold(&world.locks[0], a_x, 3, MODE_WRITE);
    lockHold(&world.locks[1], a_y, 3, MODE_WRITE);
    struct ask ask = asks(a_y, MODE_WRITE, 0);
    asksAssertNoCycle(&world, ask); /* "a" */
    ask.request.owner_length = 2;
    asksAssertNoCycle(&world, ask);
    ask.request.owner_length = 3;
    struct cyclepathCycle *cycle = NULL;
    size_t steps = ASKS_NO_BOUND;
    assert_int_equal(asksFind(&world, &ask, &steps, LOCKS_BY_HOLDS, NULL, &cycle),
                     CYCLESEARCH_CYCLE);
    assert_int_equal(cycle->length, 2);
    assert_int_equal(cycle->steps[0].owner_length, 3);
    assert_memory_equal(cycle->steps[0].owner, a_y, 3);
    assert_ptr_equal(cycle->steps[0].queue, &world.locks[0].queue);
    assert_int_equal(cycle->steps[1].owner_length, 3);
    assert_memory_equal(cycle->steps[1].owner, a_x, 3);
    assert_ptr_equal(cycle->steps[1].queue, &world.locks[1].queue);
    memFree(cycle);
    worldEnd(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(without_waits_nobody_is_asked_for_holders),
        UNIT(two_owners_who_hold_what_the_other_wants),
        UNIT(a_chain_of_three),
        UNIT(readers_are_not_in_each_others_way),
        UNIT(each_mode_is_looked_at_by_itself),
        UNIT(an_owner_is_not_in_its_own_way),
        UNIT(whoever_has_left_waits_for_nobody),
        UNIT(a_place_without_a_client_waits_for_nobody),
        UNIT(the_shortest_cycle_is_told),
        UNIT(a_cycle_of_others_is_not_followed_for_ever),
        UNIT(owners_are_bytes),
    };
    return cmocka_run_group_tests_name("cyclesearch, holders", tests, NULL, NULL);
}
