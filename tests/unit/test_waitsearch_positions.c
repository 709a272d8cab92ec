/* cyclesearch.[ch]: cycles of an owner with several positions in a queue, and of a new position
 * that is not the last. */
#include "support/asks.h"
#include "support/unit.h"
#include "support/world.h"

/* ---- the owner's own positions ---- */

static void of_several_places_of_the_asker_in_a_queue_the_first_counts(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_EXCLUSIVE, 1);
    struct wait *first = worldWaits(&world, "o", MODE_EXCLUSIVE, 0);
    worldWaitsMultikeyly(&world, "x", MODE_EXCLUSIVE, 0, 1);
    asksAssertNoCycle(&world, asks("o", MODE_EXCLUSIVE, 0));
    worldWaitEnds(&world, first);
    asksAssertAnswer(&world, asks("o", MODE_EXCLUSIVE, 0), "o 0< x, x 1 o");
    worldEnd(&world);
}

static void of_several_places_of_another_in_a_queue_the_first_counts(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldHolds(&world, "o", MODE_EXCLUSIVE, 2);
    struct wait *first = worldWaits(&world, "o", MODE_EXCLUSIVE, 0);
    worldWaitsMultikeyly(&world, "x", MODE_EXCLUSIVE, 0, 1);
    worldWaits(&world, "o", MODE_EXCLUSIVE, 0);
    asksAssertNoCycle(&world, asks("a", MODE_EXCLUSIVE, 2));
    worldWaitEnds(&world, first);
    asksAssertAnswer(&world, asks("a", MODE_EXCLUSIVE, 2), "a 2 o, o 0< x, x 1 a");
    worldEnd(&world);
}

/* A position of the owner without a client keeps nothing for its other requests. */
static void a_first_place_without_a_client_does_not_count(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_EXCLUSIVE, 1);
    worldDetached(&world, "o", 0);
    worldWaitsMultikeyly(&world, "x", MODE_EXCLUSIVE, 0, 1);
    asksAssertAnswer(&world, asks("o", MODE_EXCLUSIVE, 0), "o 0< x, x 1 o");
    worldEnd(&world);
}

static void a_fair_request_takes_its_owners_place_over(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_EXCLUSIVE, 1);
    worldDetached(&world, "o", 0);
    worldWaitsMultikeyly(&world, "x", MODE_EXCLUSIVE, 0, 1);
    asksAssertNoCycle(&world, asksFairly("o", 0));
    asksAssertAnswer(&world, asksFairly("p", 0), "");
    worldEnd(&world);
}

static void whoever_stands_behind_the_asker_already_waits_for_it(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "o", MODE_EXCLUSIVE, 0);
    struct wait *behind = worldWaits(&world, "b", MODE_READ, 0);
    worldAssertNoTies(&world);
    asksAssertAnswer(&world, asks("o", MODE_EXCLUSIVE, 1), "o 1 b, b 0< o");
    worldAssertNoTies(&world); /* the only position of the asker was one during the search */
    asksAssertNoCycle(&world, asks("p", MODE_EXCLUSIVE, 1));
    worldWaitEnds(&world, behind);
    asksAssertNoCycle(&world, asks("o", MODE_EXCLUSIVE, 1));
    worldEnd(&world);
}

static void what_the_asker_waits_for_already_is_no_part_of_the_cycle(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "o", MODE_EXCLUSIVE,
               1); /* o and b wait for each other, by someone's edits */
    worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
    asksAssertNoCycle(&world, asks("o", MODE_EXCLUSIVE, 2));
    worldEnd(&world);
}

/* ---- new positions that are not the last ---- */

static void at_the_head_nobody_stands_ahead(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_READ, 0);
    worldHolds(&world, "o", MODE_EXCLUSIVE, 1);
    worldHolds(&world, "b", MODE_READ, 0);
    worldWaitsMultikeyly(&world, "x", MODE_WRITE, 0, 1);
    asksAssertNoCycle(&world, asksFirst("o", MODE_WRITE, 0));
    asksAssertAnswer(&world, asks("o", MODE_WRITE, 0), "o 0< x, x 0 o");
    worldEnd(&world);
}

static void an_upgrade_while_another_waits_for_that_hold(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_READ, 0);
    worldHolds(&world, "b", MODE_READ, 0);
    worldHolds(&world, "w", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "w", MODE_WRITE, 0);
    asksAssertNoCycle(&world, asksFirst("o", MODE_WRITE, 0));
    worldWaits(&world, "b", MODE_EXCLUSIVE, 1);
    asksAssertAnswer(&world, asksFirst("o", MODE_WRITE, 0), "o 0 b, b 1 w, w 0 o");
    worldEnd(&world);
}

static void two_upgrades_wait_for_each_other(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_READ, 0);
    worldHolds(&world, "b", MODE_READ, 0);
    worldWaits(&world, "b", MODE_WRITE, 0);
    asksAssertAnswer(&world, asksFirst("o", MODE_WRITE, 0), "o 0 b, b 0 o");
    worldEnd(&world);
}

static void an_upgrade_gets_before_a_reader_who_stands_behind_nobody_with_a_client(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_READ, 0);
    worldHolds(&world, "c", MODE_READ, 0);
    worldHolds(&world, "r", MODE_EXCLUSIVE, 1);
    worldDetached(&world, "d", 0);
    worldWaits(&world, "r", MODE_READ, 0);
    worldWaits(&world, "c", MODE_EXCLUSIVE, 1);
    asksAssertAnswer(&world, asksFirst("o", MODE_WRITE, 0), "o 0 c, c 1 r, r 0< o");
    asksAssertNoCycle(&world, asks("p", MODE_WRITE, 0)); /* at the end nobody waits for it */
    worldEnd(&world);
}

static void a_fair_request_is_back_before_a_reader(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "c", MODE_READ, 0);
    worldHolds(&world, "r", MODE_EXCLUSIVE, 1);
    worldDetached(&world, "o", 0);
    worldWaits(&world, "r", MODE_READ, 0);
    worldWaits(&world, "c", MODE_EXCLUSIVE, 1);
    asksAssertAnswer(&world, asksFairly("o", 0), "o 0 c, c 1 r, r 0< o");
    asksAssertNoCycle(&world, asksFairly("p", 0));
    asksAssertNoCycle(&world, asks("o", MODE_EXCLUSIVE, 0)); /* goes to the end */
    worldEnd(&world);
}

/* Once o reads, its write is a re-entry, and goes before the reader in between. */
static void a_request_behind_an_own_one_gets_before_those_in_between(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "h", MODE_WRITE, 0);
    worldHolds(&world, "r", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "o", MODE_READ, 0);
    worldWaits(&world, "r", MODE_READ, 0);
    worldWaits(&world, "h", MODE_EXCLUSIVE, 1);
    asksAssertAnswer(&world, asks("o", MODE_WRITE, 0), "o 0 h, h 1 r, r 0< o");
    asksAssertNoCycle(&world, asks("o", MODE_READ, 0));
    asksAssertNoCycle(&world, asks("p", MODE_WRITE, 0));
    worldWaits(&world, "o", MODE_WRITE, 0); /* and once it waits: */
    asksAssertAnswer(&world, asks("o", MODE_EXCLUSIVE, 1), "o 1 r, r 0< o");
    worldEnd(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(of_several_places_of_the_asker_in_a_queue_the_first_counts),
        UNIT(of_several_places_of_another_in_a_queue_the_first_counts),
        UNIT(a_first_place_without_a_client_does_not_count),
        UNIT(a_fair_request_takes_its_owners_place_over),
        UNIT(whoever_stands_behind_the_asker_already_waits_for_it),
        UNIT(what_the_asker_waits_for_already_is_no_part_of_the_cycle),
        UNIT(at_the_head_nobody_stands_ahead),
        UNIT(an_upgrade_while_another_waits_for_that_hold),
        UNIT(two_upgrades_wait_for_each_other),
        UNIT(an_upgrade_gets_before_a_reader_who_stands_behind_nobody_with_a_client),
        UNIT(a_fair_request_is_back_before_a_reader),
        UNIT(a_request_behind_an_own_one_gets_before_those_in_between),
    };
    return cmocka_run_group_tests_name("cyclesearch, positions", tests, NULL, NULL);
}
