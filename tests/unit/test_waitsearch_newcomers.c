/* cyclesearch.[ch]: cycles of a request that stands in its queues already. */
#include "support/asks.h"
#include "support/unit.h"
#include "support/world.h"

/* Stands at the end of the queue, to be searched from. */
static struct wait *comes(struct world *world, const char *owner, enum lockMode mode, size_t lock) {
    struct wait *wait = worldStands(world, owner, mode, lock);
    waitgraphAnnounce(&world->graph, &wait->request);
    return wait;
}

static void who_has_come_last_closes_the_cycle(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    struct wait *first = comes(&world, "a", MODE_EXCLUSIVE, 1);
    struct wait *last = comes(&world, "b", MODE_EXCLUSIVE, 0);
    asksAssertAnswerOf(&world, first, ""); /* nobody sees a newcomer */
    waitgraphEnter(&world.graph, &first->request);
    asksAssertAnswerOf(&world, last, "b 0 a, a 1 b");
    worldEnd(&world);
}

static void no_cycle_of_one_that_has_ended(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaitEnds(&world, comes(&world, "a", MODE_EXCLUSIVE, 1));
    asksAssertAnswerOf(&world, comes(&world, "b", MODE_EXCLUSIVE, 0), "");
    worldEnd(&world);
}

static void it_waits_for_those_ahead_of_its_place(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "c", MODE_EXCLUSIVE, 1);
    worldHolds(&world, "x", MODE_EXCLUSIVE, 0);
    worldWaitsMultikeyly(&world, "b", MODE_EXCLUSIVE, 0, 1);
    struct wait *newcomer = comes(&world, "c", MODE_EXCLUSIVE, 0);
    comes(&world, "y", MODE_EXCLUSIVE, 0);
    asksAssertAnswerOf(&world, newcomer, "c 0< b, b 1 c");
    worldEnd(&world);
}

static void who_has_been_moved_to_the_head_waits_for_nobody_ahead(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "c", MODE_EXCLUSIVE, 1);
    worldHolds(&world, "x", MODE_EXCLUSIVE, 0);
    worldWaitsMultikeyly(&world, "b", MODE_EXCLUSIVE, 0, 1);
    struct wait *newcomer = comes(&world, "c", MODE_EXCLUSIVE, 0);
    waitqueueMoveFirst(&newcomer->positions[0]);
    asksAssertAnswerOf(&world, newcomer, "");
    worldEnd(&world);
}

/* Those behind it wait for what it has waited for before. */
static void who_has_been_moved_to_the_head_is_waited_for(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "x", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
    worldWaits(&world, "c", MODE_EXCLUSIVE, 1);
    struct wait *newcomer = comes(&world, "c", MODE_EXCLUSIVE, 0);
    asksAssertAnswerOf(&world, newcomer, "");
    waitqueueMoveFirst(&newcomer->positions[0]);
    asksAssertAnswerOf(&world, newcomer, "c 1 b, b 0< c");
    worldEnd(&world);
}

static void one_of_several_that_its_owner_holds_is_not_waited_for(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "c", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "x", MODE_EXCLUSIVE, 1);
    worldWaitsMultikeyly(&world, "b", MODE_EXCLUSIVE, 0, 2);
    struct waitRequest request = worldRequest("c", MODE_EXCLUSIVE);
    request.discipline = MULTIKEY;
    struct wait *newcomer = worldStandsFor(&world, request, 1);
    waitqueueAdd(&world.locks[0].queue, &newcomer->positions[1], &newcomer->request);
    asksAssertAnswerOf(&world, newcomer, "");
    worldEnd(&world);
}

/* Nor is it known not to hold the first. */
static void the_first_of_several_may_be_held_by_its_owner(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "c", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
    struct waitRequest request = worldRequest("c", MODE_EXCLUSIVE);
    request.discipline = MULTIKEY;
    struct wait *newcomer = worldStandsFor(&world, request, 0);
    waitqueueAdd(&world.locks[1].queue, &newcomer->positions[1], &newcomer->request);
    asksAssertAnswerOf(&world, newcomer, "c 1 b, b 0 c");
    worldEnd(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(who_has_come_last_closes_the_cycle),
        UNIT(no_cycle_of_one_that_has_ended),
        UNIT(it_waits_for_those_ahead_of_its_place),
        UNIT(who_has_been_moved_to_the_head_waits_for_nobody_ahead),
        UNIT(who_has_been_moved_to_the_head_is_waited_for),
        UNIT(one_of_several_that_its_owner_holds_is_not_waited_for),
        UNIT(the_first_of_several_may_be_held_by_its_owner),
    };
    return cmocka_run_group_tests_name("cyclesearch, newcomers", tests, NULL, NULL);
}
