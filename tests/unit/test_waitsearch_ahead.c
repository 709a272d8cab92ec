/* cyclesearch.[ch]: cycles through those who stand ahead in a queue. */
#include "support/asks.h"
#include "support/unit.h"
#include "support/world.h"

static void a_waiter_ahead_who_waits_elsewhere_too(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    struct wait *multikey = worldWaitsMultikeyly(&world, "b", MODE_EXCLUSIVE, 0, 1);
    asksAssertAnswer(&world, asks("a", MODE_EXCLUSIVE, 0), "a 0< b, b 1 a");
    worldWaitEnds(&world, multikey);
    worldWaits(&world, "b", MODE_WRITE, 0); /* the same with two requests */
    worldWaits(&world, "b", MODE_WRITE, 1);
    asksAssertAnswer(&world, asks("a", MODE_READ, 0), "a 0< b, b 1 a");
    worldEnd(&world);
}

static void a_waiter_ahead_who_waits_here_only_leads_to_the_holders(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "h", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
    asksAssertNoCycle(&world, asks("a", MODE_EXCLUSIVE, 0));
    worldWaits(&world, "h", MODE_EXCLUSIVE, 1);
    worldAssertNoTies(&world);
    asksAssertAnswer(&world, asks("a", MODE_EXCLUSIVE, 0), "a 0 h, h 1 a");
    worldEnd(&world);
}

static void a_reader_does_not_wait_behind_a_reader(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_READ, 0);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 1);
    asksAssertNoCycle(&world, asks("a", MODE_READ, 0));
    asksAssertAnswer(&world, asks("a", MODE_WRITE, 0), "a 0< b, b 1 a");
    worldEnd(&world);
}

static void nobody_waits_for_a_place_behind(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldHolds(&world, "c", MODE_EXCLUSIVE, 2);
    struct wait *ahead = worldWaits(&world, "c", MODE_EXCLUSIVE, 0);
    worldWaitsMultikeyly(&world, "x", MODE_EXCLUSIVE, 0, 1);
    asksAssertNoCycle(&world, asks("a", MODE_EXCLUSIVE, 2));
    worldWaitEnds(&world, ahead);
    worldWaits(&world, "c", MODE_EXCLUSIVE, 0);
    asksAssertAnswer(&world, asks("a", MODE_EXCLUSIVE, 2), "a 2 c, c 0< x, x 1 a");
    worldEnd(&world);
}

/* What a position far back has seen includes what one further ahead sees, and not the other way. */
static void two_places_in_one_queue_see_what_is_ahead_of_each(void **state) {
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        struct world world = {.count = 0};
        worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
        worldHolds(&world, "b", MODE_READ, 2);
        worldHolds(&world, "c", MODE_READ, 3);
        worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
        worldWaitsMultikeyly(&world, "x", MODE_EXCLUSIVE, 0, 1);
        worldWaits(&world, "c", MODE_EXCLUSIVE, 0);
        struct ask ask = asks("a", MODE_WRITE, turn ? 2 : 3);
        ask.locks[ask.count++] = turn ? 3 : 2;
        asksAssertAnswer(&world, ask, "a 3 c, c 0< x, x 1 a");
        worldEnd(&world);
    }
}

static void a_request_for_several_locks_waits_for_whoever_is_in_any(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 2);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 2);
    struct ask ask = asks("a", MODE_EXCLUSIVE, 0);
    ask.locks[ask.count++] = 1;
    asksAssertAnswer(&world, ask, "a 1 b, b 2 a");
    worldEnd(&world);
}

static void an_owner_waits_with_every_request_of_its_own(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 3);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 0);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 2);
    struct wait *last = worldWaits(&world, "b", MODE_EXCLUSIVE, 3);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 4);
    asksAssertAnswer(&world, asks("a", MODE_EXCLUSIVE, 0), "a 0 b, b 3 a");
    worldWaitEnds(&world, last);
    asksAssertNoCycle(&world, asks("a", MODE_EXCLUSIVE, 0));
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
    asksAssertNoCycle(&world, asks("a", MODE_EXCLUSIVE, 5));
    worldWaits(&world, "b", MODE_EXCLUSIVE, 4);
    asksAssertAnswer(&world, asks("a", MODE_EXCLUSIVE, 5), "a 5 b, b 4 a");
    worldEnd(&world);
}

/* A tie at which the cycle would close as well: the asker holds the lock, and that is told. */
static void a_hold_is_told_rather_than_a_place_ahead(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaitsMultikeyly(&world, "x", MODE_EXCLUSIVE, 0, 2);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
    asksAssertAnswer(&world, asks("a", MODE_EXCLUSIVE, 1), "a 1 b, b 0 a");
    worldEnd(&world);
}

/* ---- the readers whom a writer ahead waits for ---- */

static void a_reader_waits_for_the_readers_whom_a_writer_ahead_waits_for(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_READ, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    struct wait *writer = worldWaits(&world, "w", MODE_WRITE, 0);
    worldWaits(&world, "r", MODE_READ, 0);
    struct wait *reader = worldWaits(&world, "b", MODE_READ, 0);
    asksAssertAnswer(&world, asks("a", MODE_EXCLUSIVE, 1), "a 1 b, b 0< w, w 0 a");
    worldWaitEnds(&world, writer);
    asksAssertNoCycle(&world, asks("a", MODE_EXCLUSIVE, 1));
    worldWaits(&world, "w", MODE_WRITE, 0); /* now behind */
    asksAssertNoCycle(&world, asks("a", MODE_EXCLUSIVE, 1));
    worldWaitEnds(&world, reader);
    worldWaits(&world, "b", MODE_READ, 0);
    worldWaits(&world, "v", MODE_WRITE, 0);
    asksAssertAnswer(&world, asks("a", MODE_EXCLUSIVE, 1), "a 1 b, b 0< w, w 0 a");
    worldEnd(&world);
}

static void a_new_reader_waits_for_them_too(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "h", MODE_READ, 0);
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "h", MODE_EXCLUSIVE, 1);
    asksAssertNoCycle(&world, asks("a", MODE_READ, 0));
    struct wait *writer = worldWaits(&world, "w", MODE_WRITE, 0);
    asksAssertAnswer(&world, asks("a", MODE_READ, 0), "a 0< w, w 0 h, h 1 a");
    asksAssertNoCycle(&world, asksFirst("a", MODE_READ, 0));
    waitgraphLeave(&world.graph, &writer->request); /* a position without a client */
    asksAssertNoCycle(&world, asks("a", MODE_READ, 0));
    worldEnd(&world);
}

static void a_reader_waits_for_readers_between_two_writers_ahead(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "v", MODE_WRITE, 0);
    worldWaits(&world, "r", MODE_READ, 0);
    worldWaits(&world, "r", MODE_READ, 1);
    asksAssertNoCycle(&world, asks("a", MODE_READ, 0));
    worldWaits(&world, "w", MODE_WRITE, 0);
    worldWaits(&world, "s", MODE_READ, 0);
    asksAssertAnswer(&world, asks("a", MODE_READ, 0), "a 0< w, w 0< r, r 1 a");
    worldEnd(&world);
}

/* It waits for those ahead of its first position only, so the writer before its last one is asked
 * too. */
static void a_writer_who_stands_twice_hides_none_between(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "w", MODE_WRITE, 0);
    worldWaits(&world, "r", MODE_READ, 0);
    worldWaits(&world, "r", MODE_READ, 1);
    struct wait *between = worldWaits(&world, "v", MODE_WRITE, 0);
    worldWaits(&world, "w", MODE_WRITE, 0);
    asksAssertAnswer(&world, asks("a", MODE_READ, 0), "a 0< v, v 0< r, r 1 a");
    worldWaitEnds(&world, between);
    asksAssertNoCycle(&world, asks("a", MODE_READ, 0));
    worldEnd(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_waiter_ahead_who_waits_elsewhere_too),
        UNIT(a_waiter_ahead_who_waits_here_only_leads_to_the_holders),
        UNIT(a_reader_does_not_wait_behind_a_reader),
        UNIT(nobody_waits_for_a_place_behind),
        UNIT(two_places_in_one_queue_see_what_is_ahead_of_each),
        UNIT(a_request_for_several_locks_waits_for_whoever_is_in_any),
        UNIT(an_owner_waits_with_every_request_of_its_own),
        UNIT(a_hundred_requests_of_one_owner),
        UNIT(a_reader_waits_for_the_readers_whom_a_writer_ahead_waits_for),
        UNIT(a_new_reader_waits_for_them_too),
        UNIT(a_reader_waits_for_readers_between_two_writers_ahead),
        UNIT(a_writer_who_stands_twice_hides_none_between),
        UNIT(a_hold_is_told_rather_than_a_place_ahead),
    };
    return cmocka_run_group_tests_name("cyclesearch, ahead", tests, NULL, NULL);
}
