/* cyclesearch.[ch]: cycles through the holders of locks that others wait for, and owners as bytes.
 */
#include "core/mem.h"
#include "support/newrequest.h"
#include "support/unit.h"
#include "support/world.h"

static void without_waits_no_holders_are_looked_up(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "b", MODE_WRITE, 0);
    struct newRequest new_request = newrequestOf("a", MODE_WRITE, 0);
    size_t calls = 0, steps = 0;
    assert_int_equal(newrequestSearch(&world, &new_request, &steps, LOCKS_BY_HOLDS, &calls, NULL),
                     CYCLESEARCH_NO_CYCLE);
    new_request = newrequestFirst("a", MODE_WRITE, 0);
    assert_int_equal(newrequestSearch(&world, &new_request, &steps, LOCKS_BY_HOLDS, &calls, NULL),
                     CYCLESEARCH_NO_CYCLE);
    assert_int_equal(calls, 0);
    worldEnd(&world);
}

static void two_owners_that_each_request_what_the_other_holds(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "a", MODE_EXCLUSIVE, 1);
    newrequestAssertCycle(&world, newrequestOf("b", MODE_EXCLUSIVE, 0), "b 0 a, a 1 b");
    newrequestAssertNoCycle(&world, newrequestOf("c", MODE_EXCLUSIVE, 0));
    newrequestAssertNoCycle(&world, newrequestOf("b", MODE_EXCLUSIVE, 2));
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
    newrequestAssertCycle(&world, newrequestOf("c", MODE_EXCLUSIVE, 0), "c 0 a, a 1 b, b 2 c");
    newrequestAssertNoCycle(
        &world, newrequestOf("d", MODE_EXCLUSIVE, 0)); /* the chain leads to c, not to d */
    worldEnd(&world);
}

static void readers_do_not_conflict_with_each_other(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_READ, 0);
    worldHolds(&world, "b", MODE_READ, 1);
    struct wait *reads = worldWaits(&world, "a", MODE_READ, 1);
    newrequestAssertNoCycle(
        &world, newrequestOf("b", MODE_WRITE, 0)); /* a, which holds 0, waits for no reader */
    worldWaitEnds(&world, reads);
    worldWaits(&world, "a", MODE_WRITE, 1);
    newrequestAssertNoCycle(&world, newrequestOf("b", MODE_READ, 0));
    newrequestAssertCycle(&world, newrequestOf("b", MODE_WRITE, 0), "b 0 a, a 1 b");
    worldEnd(&world);
}

static void each_mode_is_searched_separately(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_READ, 0);
    worldHolds(&world, "b", MODE_READ, 1);
    worldHolds(&world, "c", MODE_READ, 1);
    worldWaits(&world, "b", MODE_READ, 0); /* waits for no owner in the graph */
    worldWaits(&world, "c", MODE_WRITE, 0);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_WRITE, 1), "a 1 c, c 0 a");
    worldEnd(&world);
}

static void an_owner_does_not_conflict_with_itself(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_READ, 0);
    worldHolds(&world, "a", MODE_EXCLUSIVE, 2);
    worldHolds(&world, "b", MODE_READ, 0);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 1);
    newrequestAssertNoCycle(&world, newrequestFirst("a", MODE_WRITE, 0));
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 2));
    worldEnd(&world);
}

static void an_owner_that_has_left_waits_for_no_owner(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    struct wait *wait = worldWaits(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "x", MODE_EXCLUSIVE, 3); /* so that the graph is not empty */
    newrequestAssertCycle(&world, newrequestOf("b", MODE_EXCLUSIVE, 0), "b 0 a, a 1 b");
    worldWaitEnds(&world, wait);
    newrequestAssertNoCycle(&world, newrequestOf("b", MODE_EXCLUSIVE, 0));
    assert_int_equal(waitgraphSize(&world.graph), 1);
    worldEnd(&world);
}

static void a_position_without_a_client_waits_for_no_owner(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    struct wait *wait = worldWaits(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "x", MODE_EXCLUSIVE, 3);
    waitgraphLeave(&world.graph, &wait->request);
    newrequestAssertNoCycle(&world, newrequestOf("b", MODE_EXCLUSIVE, 0));
    waitgraphEnter(&world.graph, &wait->request); /* and it may come back */
    newrequestAssertCycle(&world, newrequestOf("b", MODE_EXCLUSIVE, 0), "b 0 a, a 1 b");
    worldEnd(&world);
}

static void the_shortest_cycle_is_reported(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "b", MODE_READ, 0);
    worldHolds(&world, "d", MODE_READ, 0);
    worldHolds(&world, "c", MODE_EXCLUSIVE, 1);
    worldHolds(&world, "a", MODE_EXCLUSIVE, 2);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 1); /* b -> c -> a, and d -> a */
    worldWaits(&world, "c", MODE_EXCLUSIVE, 2);
    worldWaits(&world, "d", MODE_EXCLUSIVE, 2);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_WRITE, 0), "a 0 d, d 2 a");
    worldEnd(&world);
}

static void a_cycle_of_others_is_not_followed_for_ever(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "b", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "c", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "c", MODE_EXCLUSIVE, 0);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 0));
    worldEnd(&world);
}

/* ---- owners as bytes ---- */

static void owners_are_bytes(void **state) {
    (void)state;
    struct world world = {.count = 0};
    static const char a_x[] = "a\0x", a_y[] = "a\0y";
    struct waitRequest request = worldRequest(a_x);
    request.owner_length = 3;
    struct wait *wait = worldQueueRequest(&world, request, MODE_WRITE, 1);
    waitgraphEnter(&world.graph, &wait->request);
    lockHold(&world.locks[0], a_x, 3, MODE_WRITE);
    lockHold(&world.locks[1], a_y, 3, MODE_WRITE);
    struct newRequest new_request = newrequestOf(a_y, MODE_WRITE, 0);
    newrequestAssertNoCycle(&world, new_request); /* "a" */
    new_request.request.owner_length = 2;
    newrequestAssertNoCycle(&world, new_request);
    new_request.request.owner_length = 3;
    struct cyclepathCycle *cycle = NULL;
    size_t steps = NEWREQUEST_NO_LIMIT;
    assert_int_equal(newrequestSearch(&world, &new_request, &steps, LOCKS_BY_HOLDS, NULL, &cycle),
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
        UNIT(without_waits_no_holders_are_looked_up),
        UNIT(two_owners_that_each_request_what_the_other_holds),
        UNIT(a_chain_of_three),
        UNIT(readers_do_not_conflict_with_each_other),
        UNIT(each_mode_is_searched_separately),
        UNIT(an_owner_does_not_conflict_with_itself),
        UNIT(an_owner_that_has_left_waits_for_no_owner),
        UNIT(a_position_without_a_client_waits_for_no_owner),
        UNIT(the_shortest_cycle_is_reported),
        UNIT(a_cycle_of_others_is_not_followed_for_ever),
        UNIT(owners_are_bytes),
    };
    return cmocka_run_group_tests_name("cyclesearch, holders", tests, NULL, NULL);
}
