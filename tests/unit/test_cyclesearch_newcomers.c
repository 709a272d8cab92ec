/* cyclesearch.[ch]: cycles of a request that is in its queues already. */
#include "support/newrequest.h"
#include "support/unit.h"
#include "support/world.h"

/* Adds a newcomer at the end of the queue. */
static struct wait *addNewcomer(struct world *world, const char *owner, enum lockMode mode,
                                size_t lock) {
    struct wait *wait = worldQueue(world, owner, mode, lock);
    waitgraphAnnounce(&world->graph, &wait->request);
    return wait;
}

static void the_newcomer_that_came_last_closes_the_cycle(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    struct wait *first = addNewcomer(&world, "a", MODE_EXCLUSIVE, 1);
    struct wait *last = addNewcomer(&world, "b", MODE_EXCLUSIVE, 0);
    newrequestAssertCycleOf(&world, first, ""); /* a search sees no other newcomer */
    waitgraphEnter(&world.graph, &first->request);
    newrequestAssertCycleOf(&world, last, "b 0 a, a 1 b");
    worldEnd(&world);
}

static void a_wait_that_has_ended_closes_no_cycle(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "a", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaitEnds(&world, addNewcomer(&world, "a", MODE_EXCLUSIVE, 1));
    newrequestAssertCycleOf(&world, addNewcomer(&world, "b", MODE_EXCLUSIVE, 0), "");
    worldEnd(&world);
}

static void a_newcomer_waits_for_owners_ahead_of_its_position(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "c", MODE_EXCLUSIVE, 1);
    worldHolds(&world, "x", MODE_EXCLUSIVE, 0);
    worldWaitsForTwo(&world, "b", MODE_EXCLUSIVE, 0, 1);
    struct wait *newcomer = addNewcomer(&world, "c", MODE_EXCLUSIVE, 0);
    addNewcomer(&world, "y", MODE_EXCLUSIVE, 0);
    newrequestAssertCycleOf(&world, newcomer, "c 0< b, b 1 c");
    worldEnd(&world);
}

static void a_newcomer_moved_to_the_head_waits_for_no_owner_ahead(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "c", MODE_EXCLUSIVE, 1);
    worldHolds(&world, "x", MODE_EXCLUSIVE, 0);
    worldWaitsForTwo(&world, "b", MODE_EXCLUSIVE, 0, 1);
    struct wait *newcomer = addNewcomer(&world, "c", MODE_EXCLUSIVE, 0);
    waitqueueMoveFirst(&newcomer->positions[0]);
    newrequestAssertCycleOf(&world, newcomer, "");
    worldEnd(&world);
}

/* A cycle then leads through an earlier wait of its owner. */
static void owners_behind_a_newcomer_moved_to_the_head_wait_for_it(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "x", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
    worldWaits(&world, "c", MODE_EXCLUSIVE, 1);
    struct wait *newcomer = addNewcomer(&world, "c", MODE_EXCLUSIVE, 0);
    newrequestAssertCycleOf(&world, newcomer, "");
    waitqueueMoveFirst(&newcomer->positions[0]);
    newrequestAssertCycleOf(&world, newcomer, "c 1 b, b 0< c");
    worldEnd(&world);
}

static void a_multikey_request_does_not_wait_for_a_lock_its_owner_holds(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "c", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "x", MODE_EXCLUSIVE, 1);
    worldWaitsForTwo(&world, "b", MODE_EXCLUSIVE, 0, 2);
    struct wait *newcomer = worldQueueForBoth(&world, "c", worldPlain(1), worldPlain(0));
    newrequestAssertCycleOf(&world, newcomer, "");
    worldEnd(&world);
}

/* The search must not assume that the owner does not hold the first lock. */
static void the_first_lock_of_a_multikey_request_may_be_held_by_its_owner(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "c", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "b", MODE_EXCLUSIVE, 1);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 0);
    struct wait *newcomer = worldQueueForBoth(&world, "c", worldPlain(0), worldPlain(1));
    newrequestAssertCycleOf(&world, newcomer, "c 1 b, b 0 c");
    worldEnd(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(the_newcomer_that_came_last_closes_the_cycle),
        UNIT(a_wait_that_has_ended_closes_no_cycle),
        UNIT(a_newcomer_waits_for_owners_ahead_of_its_position),
        UNIT(a_newcomer_moved_to_the_head_waits_for_no_owner_ahead),
        UNIT(owners_behind_a_newcomer_moved_to_the_head_wait_for_it),
        UNIT(a_multikey_request_does_not_wait_for_a_lock_its_owner_holds),
        UNIT(the_first_lock_of_a_multikey_request_may_be_held_by_its_owner),
    };
    return cmocka_run_group_tests_name("cyclesearch, newcomers", tests, NULL, NULL);
}
