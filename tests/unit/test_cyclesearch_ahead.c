/* cyclesearch.[ch]: cycles through owners that are ahead in a queue. */
#include "support/newrequest.h"
#include "support/unit.h"
#include "support/world.h"

static void a_waiter_ahead_that_also_waits_elsewhere(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    struct wait *multikey = worldWaitsForTwo(&world, "b", MODE_EXCLUSIVE, 0, 1);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 0), "a 0< b, b 1 a");
    worldWaitEnds(&world, multikey);
    worldWaits(&world, "b", MODE_WRITE, 0); /* the same with two requests */
    worldWaits(&world, "b", MODE_WRITE, 1);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_READ, 0), "a 0< b, b 1 a");
    worldEnd(&world);
}

static void a_waiter_ahead_that_waits_only_here_leads_to_the_holders(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "h", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 0));
    worldWaits(&world, "h", MODE_EXCLUSIVE, 1);
    worldAssertNoTies(&world);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 0), "a 0 h, h 1 a");
    worldEnd(&world);
}

static void a_reader_does_not_wait_behind_a_reader(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_READ, 0);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 1);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_READ, 0));
    newrequestAssertCycle(&world, newrequestOf("a", MODE_WRITE, 0), "a 0< b, b 1 a");
    worldEnd(&world);
}

static void no_owner_waits_for_a_position_behind(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldHolds(&world, "c", MODE_EXCLUSIVE, 2);
    struct wait *ahead = worldWaits(&world, "c", MODE_EXCLUSIVE, 0);
    worldWaitsForTwo(&world, "x", MODE_EXCLUSIVE, 0, 1);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 2));
    worldWaitEnds(&world, ahead);
    worldWaits(&world, "c", MODE_EXCLUSIVE, 0);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 2), "a 2 c, c 0< x, x 1 a");
    worldEnd(&world);
}

/* What is seen from a position includes what is seen from those ahead of it, but not the reverse.
 */
static void two_positions_in_one_queue_see_what_is_ahead_of_each(void **state) {
    (void)state;
    for (int swapped = 0; swapped < 2; swapped++) {
        struct world world = {.count = 0};
        worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
        worldHolds(&world, "b", MODE_READ, 2);
        worldHolds(&world, "c", MODE_READ, 3);
        worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
        worldWaitsForTwo(&world, "x", MODE_EXCLUSIVE, 0, 1);
        worldWaits(&world, "c", MODE_EXCLUSIVE, 0);
        struct newRequest new_request =
            newrequestForBoth("a", worldToWrite(swapped ? 2 : 3), worldToWrite(swapped ? 3 : 2));
        newrequestAssertCycle(&world, new_request, "a 3 c, c 0< x, x 1 a");
        worldEnd(&world);
    }
}

static void a_request_for_several_locks_waits_for_the_owners_of_each(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 2);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 2);
    newrequestAssertCycle(&world, newrequestForBoth("a", worldToWrite(0), worldToWrite(1)),
                          "a 1 b, b 2 a");
    worldEnd(&world);
}

static void an_owner_waits_for_what_any_of_its_requests_waits_for(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 3);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 0);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 2);
    struct wait *last = worldWaits(&world, "b", MODE_EXCLUSIVE, 3);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 4);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 0), "a 0 b, b 3 a");
    worldWaitEnds(&world, last);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 0));
    worldEnd(&world);
}

static void a_hundred_requests_of_one_owner(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 4);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 5);
    for (size_t i = 0; i < 100; i++) {
        worldWaits(&world, "b", MODE_EXCLUSIVE, i % 4);
    }
    assert_int_equal(world.locks[0].queue.ties.length, 25);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 5));
    worldWaits(&world, "b", MODE_EXCLUSIVE, 4);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 5), "a 5 b, b 4 a");
    worldEnd(&world);
}

/* The cycle would also close at a tie; but the asker holds the lock, and the hold is reported. */
static void a_hold_is_reported_rather_than_a_position_ahead(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaitsForTwo(&world, "x", MODE_EXCLUSIVE, 0, 2);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 1), "a 1 b, b 0 a");
    worldEnd(&world);
}

/* ---- the readers that a writer ahead waits for ---- */

static void a_reader_waits_for_the_readers_that_a_writer_ahead_waits_for(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_READ, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    struct wait *writer = worldWaits(&world, "w", MODE_WRITE, 0);
    worldWaits(&world, "r", MODE_READ, 0);
    struct wait *reader = worldWaits(&world, "b", MODE_READ, 0);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 1), "a 1 b, b 0< w, w 0 a");
    worldWaitEnds(&world, writer);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 1));
    worldWaits(&world, "w", MODE_WRITE, 0); /* now behind */
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 1));
    worldWaitEnds(&world, reader);
    worldWaits(&world, "b", MODE_READ, 0);
    worldWaits(&world, "v", MODE_WRITE, 0);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 1), "a 1 b, b 0< w, w 0 a");
    worldEnd(&world);
}

static void a_new_reader_also_waits_for_these_readers(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "h", MODE_READ, 0);
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "h", MODE_EXCLUSIVE, 1);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_READ, 0));
    struct wait *writer = worldWaits(&world, "w", MODE_WRITE, 0);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_READ, 0), "a 0< w, w 0 h, h 1 a");
    newrequestAssertNoCycle(&world, newrequestFirst("a", MODE_READ, 0));
    waitgraphLeave(&world.graph, &writer->request); /* a position without a client */
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_READ, 0));
    worldEnd(&world);
}

static void a_reader_waits_for_readers_between_two_writers_ahead(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "v", MODE_WRITE, 0);
    worldWaits(&world, "r", MODE_READ, 0);
    worldWaits(&world, "r", MODE_READ, 1);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_READ, 0));
    worldWaits(&world, "w", MODE_WRITE, 0);
    worldWaits(&world, "s", MODE_READ, 0);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_READ, 0), "a 0< w, w 0< r, r 1 a");
    worldEnd(&world);
}

/* It waits only for owners ahead of its first position, so the writer before its last position is
 * followed too. */
static void a_writer_with_two_positions_hides_no_writer_between_them(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "w", MODE_WRITE, 0);
    worldWaits(&world, "r", MODE_READ, 0);
    worldWaits(&world, "r", MODE_READ, 1);
    struct wait *between = worldWaits(&world, "v", MODE_WRITE, 0);
    worldWaits(&world, "w", MODE_WRITE, 0);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_READ, 0), "a 0< v, v 0< r, r 1 a");
    worldWaitEnds(&world, between);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_READ, 0));
    worldEnd(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_waiter_ahead_that_also_waits_elsewhere),
        UNIT(a_waiter_ahead_that_waits_only_here_leads_to_the_holders),
        UNIT(a_reader_does_not_wait_behind_a_reader),
        UNIT(no_owner_waits_for_a_position_behind),
        UNIT(two_positions_in_one_queue_see_what_is_ahead_of_each),
        UNIT(a_request_for_several_locks_waits_for_the_owners_of_each),
        UNIT(an_owner_waits_for_what_any_of_its_requests_waits_for),
        UNIT(a_hundred_requests_of_one_owner),
        UNIT(a_reader_waits_for_the_readers_that_a_writer_ahead_waits_for),
        UNIT(a_new_reader_also_waits_for_these_readers),
        UNIT(a_reader_waits_for_readers_between_two_writers_ahead),
        UNIT(a_writer_with_two_positions_hides_no_writer_between_them),
        UNIT(a_hold_is_reported_rather_than_a_position_ahead),
    };
    return cmocka_run_group_tests_name("cyclesearch, ahead", tests, NULL, NULL);
}
