/* cyclesearch.[ch]: cycles of requests for several keys, which wait for each key in a mode of its
 * own. */
#include "support/newrequest.h"
#include "support/unit.h"
#include "support/world.h"

static void each_position_waits_in_its_own_mode(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "x", MODE_READ, 0);
    worldHolds(&world, "x", MODE_READ, 1);
    worldHolds(&world, "a", MODE_WRITE, 2);
    worldWaits(&world, "x", MODE_READ, 2);
    newrequestAssertNoCycle(&world, newrequestForBoth("a", worldToRead(0), worldToRead(1)));
    newrequestAssertCycle(&world, newrequestForBoth("a", worldToRead(0), worldToWrite(1)),
                          "a 1 x, x 2 a");
    newrequestAssertCycle(&world, newrequestForBoth("a", worldToWrite(0), worldToRead(1)),
                          "a 0 x, x 2 a");
    worldEnd(&world);
}

static void owners_wait_for_each_position_in_its_own_mode(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_WRITE, 2);
    worldWaitsForBoth(&world, "x", worldToRead(0), worldToWrite(1));
    worldWaits(&world, "x", MODE_READ, 2);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_READ, 0));
    newrequestAssertCycle(&world, newrequestOf("a", MODE_WRITE, 0), "a 0< x, x 2 a");
    newrequestAssertCycle(&world, newrequestOf("a", MODE_READ, 1), "a 1< x, x 2 a");
    worldEnd(&world);
}

/* Only a writer behind a new reader at the head waits for it. */
static void owners_behind_the_asker_wait_for_each_of_its_positions(void **state) {
    (void)state;
    struct world world = {.count = 0};
    struct worldLock read_first = worldToRead(0);
    read_first.at_head = true;
    worldHolds(&world, "x", MODE_WRITE, 1);
    struct wait *reader = worldWaits(&world, "x", MODE_READ, 0);
    newrequestAssertNoCycle(&world, newrequestForBoth("a", read_first, worldToWrite(1)));
    newrequestAssertNoCycle(&world, newrequestForBoth("a", worldToWrite(1), read_first));
    worldWaitEnds(&world, reader);
    worldWaits(&world, "x", MODE_WRITE, 0);
    newrequestAssertCycle(&world, newrequestForBoth("a", read_first, worldToWrite(1)),
                          "a 1 x, x 0< a");
    newrequestAssertCycle(&world, newrequestForBoth("a", worldToWrite(1), read_first),
                          "a 1 x, x 0< a");
    worldEnd(&world);
}

/* ---- locks that the owner holds ---- */

/* w waits for lock 0 ahead of o, and for o. */
static void a_reader_that_reenters_a_lock_does_not_wait_behind_a_writer(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_WRITE, 2);
    worldHolds(&world, "b", MODE_WRITE, 1);
    worldWaitsForBoth(&world, "w", worldToWrite(0), worldToWrite(2));
    struct newRequest new_request = newrequestForBoth("o", worldToRead(0), worldToWrite(1));
    newrequestAssertCycle(&world, new_request, "o 0< w, w 2 o");
    worldHolds(&world, "o", MODE_READ, 0);
    newrequestAssertNoCycle(&world, new_request);
    worldEnd(&world);
}

/* The same when o already waits, and w's request closes no cycle with it. */
static void an_owner_that_reenters_a_lock_is_not_followed_to_a_writer_ahead(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "h", MODE_WRITE, 1);
    worldHolds(&world, "o", MODE_WRITE, 2);
    worldHolds(&world, "a", MODE_WRITE, 3);
    worldWaitsForBoth(&world, "w", worldToWrite(0), worldToWrite(3));
    worldWaitsForBoth(&world, "o", worldToRead(0), worldToRead(1));
    newrequestAssertCycle(&world, newrequestOf("a", MODE_READ, 2), "a 2 o, o 0< w, w 3 a");
    worldHolds(&world, "o", MODE_READ, 0);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_READ, 2));
    worldEnd(&world);
}

static void a_writer_that_reenters_a_lock_waits_for_no_owner_ahead(void **state) {
    (void)state;
    static const enum lockMode held_as[] = {MODE_WRITE, MODE_EXCLUSIVE};
    for (size_t i = 0; i < LENGTH_OF(held_as); i++) {
        struct world world = {.count = 0};
        worldHolds(&world, "o", held_as[i], 0);
        worldHolds(&world, "b", MODE_WRITE, 1);
        worldWaitsForBoth(&world, "w", worldToRead(0), worldToWrite(2));
        newrequestAssertNoCycle(&world, newrequestForBoth("o", worldToWrite(0), worldToRead(1)));
        newrequestAssertNoCycle(&world, newrequestForBoth("o", worldToRead(0), worldToRead(1)));
        worldEnd(&world);
    }
}

/* o's own hold is in the way of its request for a plain lock, which is no re-entry. */
static void a_hold_of_another_kind_is_no_reentry(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_READ, 0);
    worldHolds(&world, "o", MODE_WRITE, 2);
    worldHolds(&world, "a", MODE_WRITE, 1);
    worldWaitsForBoth(&world, "x", worldToRead(0), worldToWrite(1));
    struct wait *writer = worldWaitsForBoth(&world, "o", worldToWrite(0), worldToWrite(3));
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_WRITE, 2));
    worldWaitEnds(&world, writer);
    worldWaitsForBoth(&world, "o", worldPlain(0), worldPlain(3));
    newrequestAssertCycle(&world, newrequestOf("a", MODE_WRITE, 2), "a 2 o, o 0< x, x 1 a");
    worldEnd(&world);
}

/* ---- upgrades ---- */

/* It does not wait for w, which is ahead of it unless it is at the head. */
static void an_upgrade_waits_for_the_other_readers_only(void **state) {
    (void)state;
    struct world world = {.count = 0};
    struct newRequest at_head = newrequestForBoth("o", worldUpgrade(0), worldToRead(1));
    struct newRequest at_end = newrequestForBoth("o", worldToWrite(0), worldToRead(1));
    worldHolds(&world, "o", MODE_READ, 0);
    worldHolds(&world, "c", MODE_READ, 0);
    worldHolds(&world, "o", MODE_WRITE, 2);
    worldWaitsForBoth(&world, "w", worldToWrite(0), worldToWrite(2));
    newrequestAssertNoCycle(&world, at_head);
    newrequestAssertNoCycle(&world, at_end);
    worldWaits(&world, "c", MODE_READ, 2);
    newrequestAssertCycle(&world, at_head, "o 0 c, c 2 o");
    newrequestAssertCycle(&world, at_end, "o 0 c, c 2 o");
    worldEnd(&world);
}

static void two_upgrades_close_a_cycle(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_READ, 0);
    worldHolds(&world, "b", MODE_READ, 0);
    struct wait *reentry = worldWaitsForBoth(&world, "b", worldToRead(0), worldToWrite(1));
    newrequestAssertNoCycle(&world, newrequestForBoth("o", worldUpgrade(0), worldToWrite(2)));
    worldWaitEnds(&world, reentry);
    worldWaitsForBoth(&world, "b", worldUpgrade(0), worldToWrite(1));
    newrequestAssertCycle(&world, newrequestForBoth("o", worldUpgrade(0), worldToWrite(2)),
                          "o 0 b, b 0 o");
    newrequestAssertCycle(&world, newrequestFirst("o", MODE_WRITE, 0), "o 0 b, b 0 o");
    worldEnd(&world);
}

/* r's read does not conflict with o's hold, but waits behind o's upgrade. */
static void readers_behind_an_upgrade_wait_for_it(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "o", MODE_READ, 0);
    worldHolds(&world, "c", MODE_READ, 0);
    worldHolds(&world, "r", MODE_WRITE, 1);
    worldWaits(&world, "r", MODE_READ, 0);
    worldWaits(&world, "c", MODE_WRITE, 1);
    newrequestAssertCycle(&world, newrequestForBoth("o", worldUpgrade(0), worldToRead(2)),
                          "o 0 c, c 1 r, r 0< o");
    newrequestAssertCycle(&world, newrequestForBoth("o", worldToRead(2), worldUpgrade(0)),
                          "o 0 c, c 1 r, r 0< o");
    newrequestAssertNoCycle(&world, newrequestForBoth("o", worldToWrite(0), worldToRead(2)));
    worldEnd(&world);
}

/* ---- trees: the root is read, and one directory is written ---- */

enum { ROOT, ONE, OTHER };

static void requests_for_two_directories_of_one_root_do_not_wait_for_each_other(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "w", MODE_WRITE, ROOT);
    worldWaitsForBoth(&world, "a", worldToRead(ROOT), worldToWrite(ONE));
    worldHolds(&world, "b", MODE_WRITE, 3);
    worldWaits(&world, "a", MODE_WRITE, 3);
    newrequestAssertNoCycle(&world, newrequestForBoth("b", worldToRead(ROOT), worldToWrite(OTHER)));
    newrequestAssertCycle(&world, newrequestForBoth("b", worldToRead(ROOT), worldToWrite(ONE)),
                          "b 1< a, a 3 b");
    newrequestAssertCycle(&world, newrequestForBoth("b", worldToWrite(ROOT), worldToWrite(OTHER)),
                          "b 0< a, a 3 b");
    worldEnd(&world);
}

static void two_owners_that_each_request_the_directory_of_the_other(void **state) {
    (void)state;
    struct world world = {.count = 0};
    static const char *const owners[] = {"a", "b"};
    for (size_t i = 0; i < LENGTH_OF(owners); i++) {
        worldHolds(&world, owners[i], MODE_READ, ROOT);
        worldHolds(&world, owners[i], MODE_WRITE, i == 0 ? ONE : OTHER);
    }
    worldWaitsForBoth(&world, "a", worldToRead(ROOT), worldToWrite(OTHER));
    newrequestAssertCycle(&world, newrequestForBoth("b", worldToRead(ROOT), worldToWrite(ONE)),
                          "b 1 a, a 2 b");
    newrequestAssertNoCycle(&world, newrequestForBoth("c", worldToRead(ROOT), worldToWrite(ONE)));
    newrequestAssertNoCycle(&world, newrequestForBoth("b", worldToRead(ROOT), worldToWrite(3)));
    worldEnd(&world);
}

/* x waits for lock 1 only, although its position in the queue of lock 0 is ahead of a's. */
static void a_reader_behind_a_reader_that_stands_aside_waits_for_no_owner(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_WRITE, 1);
    struct wait *aside = worldWaitsForBoth(&world, "x", worldToRead(0), worldToWrite(1));
    waitqueueStandAside(&aside->positions[0]);
    newrequestAssertNoCycle(&world, newrequestOf("a", MODE_READ, 0));
    newrequestAssertNoCycle(&world, newrequestForBoth("a", worldToRead(0), worldToRead(2)));
    newrequestAssertCycle(&world, newrequestOf("a", MODE_WRITE, 0), "a 0< x, x 1 a");
    worldEnd(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(each_position_waits_in_its_own_mode),
        UNIT(owners_wait_for_each_position_in_its_own_mode),
        UNIT(owners_behind_the_asker_wait_for_each_of_its_positions),
        UNIT(a_reader_that_reenters_a_lock_does_not_wait_behind_a_writer),
        UNIT(an_owner_that_reenters_a_lock_is_not_followed_to_a_writer_ahead),
        UNIT(a_writer_that_reenters_a_lock_waits_for_no_owner_ahead),
        UNIT(a_hold_of_another_kind_is_no_reentry),
        UNIT(an_upgrade_waits_for_the_other_readers_only),
        UNIT(two_upgrades_close_a_cycle),
        UNIT(readers_behind_an_upgrade_wait_for_it),
        UNIT(requests_for_two_directories_of_one_root_do_not_wait_for_each_other),
        UNIT(two_owners_that_each_request_the_directory_of_the_other),
        UNIT(a_reader_behind_a_reader_that_stands_aside_waits_for_no_owner),
    };
    return cmocka_run_group_tests_name("cyclesearch, modes", tests, NULL, NULL);
}
