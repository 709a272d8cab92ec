/* cyclesearch.[ch]: cycles of an owner with several positions in a queue, and of a new position
 * that is not the last. */
#include "support/newrequest.h"
#include "support/unit.h"
#include "support/world.h"

/* ---- the owner's own positions ---- */

static void the_first_of_the_askers_positions_in_a_queue_counts(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_EXCLUSIVE, 1);
    struct wait *first = worldWaits(&world, "o", MODE_EXCLUSIVE, 0);
    worldWaitsForTwo(&world, "x", MODE_EXCLUSIVE, 0, 1);
    newrequestAssertNoCycle(&world, newrequestOf("o", MODE_EXCLUSIVE, 0));
    worldWaitEnds(&world, first);
    newrequestAssertCycle(&world, newrequestOf("o", MODE_EXCLUSIVE, 0), "o 0< x, x 1 o");
    worldEnd(&world);
}

static void the_first_of_another_owners_positions_in_a_queue_counts(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldHolds(&world, "o", MODE_EXCLUSIVE, 2);
    struct wait *first = worldWaits(&world, "o", MODE_EXCLUSIVE, 0);
    worldWaitsForTwo(&world, "x", MODE_EXCLUSIVE, 0, 1);
    worldWaits(&world, "o", MODE_EXCLUSIVE, 0);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 2));
    worldWaitEnds(&world, first);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 2), "a 2 o, o 0< x, x 1 a");
    worldEnd(&world);
}

/* A position of the owner without a client is of no use to the owner's other requests. */
static void a_first_position_without_a_client_does_not_count(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_EXCLUSIVE, 1);
    worldDetached(&world, "o", 0);
    worldWaitsForTwo(&world, "x", MODE_EXCLUSIVE, 0, 1);
    newrequestAssertCycle(&world, newrequestOf("o", MODE_EXCLUSIVE, 0), "o 0< x, x 1 o");
    worldEnd(&world);
}

static void a_fair_request_takes_over_its_owners_position(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_EXCLUSIVE, 1);
    worldDetached(&world, "o", 0);
    worldWaitsForTwo(&world, "x", MODE_EXCLUSIVE, 0, 1);
    newrequestAssertNoCycle(&world, newrequestFair("o", 0));
    newrequestAssertCycle(&world, newrequestFair("p", 0), "");
    worldEnd(&world);
}

static void owners_that_are_already_behind_the_asker_wait_for_it(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "o", MODE_EXCLUSIVE, 0);
    struct wait *behind = worldWaits(&world, "b", MODE_READ, 0);
    worldAssertNoTies(&world);
    newrequestAssertCycle(&world, newrequestOf("o", MODE_EXCLUSIVE, 1), "o 1 b, b 0< o");
    worldAssertNoTies(&world); /* the asker's only position was a tie during the search */
    newrequestAssertNoCycle(&world, newrequestOf("p", MODE_EXCLUSIVE, 1));
    worldWaitEnds(&world, behind);
    newrequestAssertNoCycle(&world, newrequestOf("o", MODE_EXCLUSIVE, 1));
    worldEnd(&world);
}

static void what_the_asker_already_waits_for_is_not_part_of_the_cycle(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    /* o and b wait for each other, after another client has edited the keys */
    worldWaits(&world, "o", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
    newrequestAssertNoCycle(&world, newrequestOf("o", MODE_EXCLUSIVE, 2));
    worldEnd(&world);
}

/* ---- new positions that are not the last ---- */

static void at_the_head_no_owner_is_ahead(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_READ, 0);
    worldHolds(&world, "o", MODE_EXCLUSIVE, 1);
    worldHolds(&world, "b", MODE_READ, 0);
    worldWaitsForTwo(&world, "x", MODE_WRITE, 0, 1);
    newrequestAssertNoCycle(&world, newrequestFirst("o", MODE_WRITE, 0));
    newrequestAssertCycle(&world, newrequestOf("o", MODE_WRITE, 0), "o 0< x, x 0 o");
    worldEnd(&world);
}

static void an_upgrade_while_another_owner_waits_for_its_hold(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_READ, 0);
    worldHolds(&world, "b", MODE_READ, 0);
    worldHolds(&world, "w", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "w", MODE_WRITE, 0);
    newrequestAssertNoCycle(&world, newrequestFirst("o", MODE_WRITE, 0));
    worldWaits(&world, "b", MODE_EXCLUSIVE, 1);
    newrequestAssertCycle(&world, newrequestFirst("o", MODE_WRITE, 0), "o 0 b, b 1 w, w 0 o");
    worldEnd(&world);
}

static void two_upgrades_wait_for_each_other(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_READ, 0);
    worldHolds(&world, "b", MODE_READ, 0);
    worldWaits(&world, "b", MODE_WRITE, 0);
    newrequestAssertCycle(&world, newrequestFirst("o", MODE_WRITE, 0), "o 0 b, b 0 o");
    worldEnd(&world);
}

static void an_upgrade_passes_a_reader_behind_a_position_without_a_client(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_READ, 0);
    worldHolds(&world, "c", MODE_READ, 0);
    worldHolds(&world, "r", MODE_EXCLUSIVE, 1);
    worldDetached(&world, "d", 0);
    worldWaits(&world, "r", MODE_READ, 0);
    worldWaits(&world, "c", MODE_EXCLUSIVE, 1);
    newrequestAssertCycle(&world, newrequestFirst("o", MODE_WRITE, 0), "o 0 c, c 1 r, r 0< o");
    newrequestAssertNoCycle(
        &world, newrequestOf("p", MODE_WRITE, 0)); /* at the end no owner waits for it */
    worldEnd(&world);
}

static void a_fair_request_returns_to_its_position_ahead_of_a_reader(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "c", MODE_READ, 0);
    worldHolds(&world, "r", MODE_EXCLUSIVE, 1);
    worldDetached(&world, "o", 0);
    worldWaits(&world, "r", MODE_READ, 0);
    worldWaits(&world, "c", MODE_EXCLUSIVE, 1);
    newrequestAssertCycle(&world, newrequestFair("o", 0), "o 0 c, c 1 r, r 0< o");
    newrequestAssertNoCycle(&world, newrequestFair("p", 0));
    newrequestAssertNoCycle(&world, newrequestOf("o", MODE_EXCLUSIVE, 0)); /* is added at the end */
    worldEnd(&world);
}

/* When o's read is granted, its write is a re-entry, and is granted before the reader in between.
 */
static void a_request_behind_one_of_its_owners_passes_those_in_between(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "h", MODE_WRITE, 0);
    worldHolds(&world, "r", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "o", MODE_READ, 0);
    worldWaits(&world, "r", MODE_READ, 0);
    worldWaits(&world, "h", MODE_EXCLUSIVE, 1);
    newrequestAssertCycle(&world, newrequestOf("o", MODE_WRITE, 0), "o 0 h, h 1 r, r 0< o");
    newrequestAssertNoCycle(&world, newrequestOf("o", MODE_READ, 0));
    newrequestAssertNoCycle(&world, newrequestOf("p", MODE_WRITE, 0));
    worldWaits(&world, "o", MODE_WRITE, 0); /* and once it waits: */
    newrequestAssertCycle(&world, newrequestOf("o", MODE_EXCLUSIVE, 1), "o 1 r, r 0< o");
    worldEnd(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(the_first_of_the_askers_positions_in_a_queue_counts),
        UNIT(the_first_of_another_owners_positions_in_a_queue_counts),
        UNIT(a_first_position_without_a_client_does_not_count),
        UNIT(a_fair_request_takes_over_its_owners_position),
        UNIT(owners_that_are_already_behind_the_asker_wait_for_it),
        UNIT(what_the_asker_already_waits_for_is_not_part_of_the_cycle),
        UNIT(at_the_head_no_owner_is_ahead),
        UNIT(an_upgrade_while_another_owner_waits_for_its_hold),
        UNIT(two_upgrades_wait_for_each_other),
        UNIT(an_upgrade_passes_a_reader_behind_a_position_without_a_client),
        UNIT(a_fair_request_returns_to_its_position_ahead_of_a_reader),
        UNIT(a_request_behind_one_of_its_owners_passes_those_in_between),
    };
    return cmocka_run_group_tests_name("cyclesearch, positions", tests, NULL, NULL);
}
