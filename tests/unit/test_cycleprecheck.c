/* cycleprecheck.[ch]: past its bounds it says that maybe somebody waits, never that nobody does. */
#include "core/cycleprecheck.h"

#include <stdio.h>

#include "support/locks.h"
#include "support/unit.h"
#include "support/world.h"

#define CROWD 100

static char names[CROWD][24];

/* What is found out about a newcomer who asks for lock 1, which z holds. */
static enum cycleprecheckAnswer answerOf(struct world *world) {
    const struct cyclesearchAsked holds = lockAsked(LOCKS_BY_HOLDS, NULL);
    struct wait *newcomer = worldStands(world, "a", MODE_WRITE, 1);
    struct cycleprecheck asked;
    waitgraphAnnounce(&world->graph, &newcomer->request);
    cycleprecheckBegin(&asked, &world->graph, &newcomer->request,
                       (struct cycleprecheckHolders){holds.is_holder, NULL});
    while (asked.answer == CYCLEPRECHECK_CONTINUES) {
        cycleprecheckContinue(&asked);
    }
    worldWaitEnds(world, newcomer);
    world->count--;
    return asked.answer;
}

/* So many wait for a: each of another owner, or all of one. */
static void worldWaitsForA(struct world *world, size_t count, bool of_one_owner) {
    worldHolds(world, "a", MODE_WRITE, 0);
    worldHolds(world, "z", MODE_WRITE, 1);
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "w%zu", of_one_owner ? 0 : i);
        worldWaits(world, names[i], MODE_READ, 0);
    }
}

static void nobody_is_said_of_as_many_owners_as_are_asked_about_and_not_of_more(void **state) {
    (void)state;
    static const size_t counts[] = {0,
                                    1,
                                    CYCLEPRECHECK_MOST_OWNERS - 2,
                                    CYCLEPRECHECK_MOST_OWNERS - 1,
                                    CYCLEPRECHECK_MOST_OWNERS,
                                    CYCLEPRECHECK_MOST_OWNERS + 1,
                                    3 * CYCLEPRECHECK_MOST_OWNERS};
    for (size_t i = 0; i < LENGTH_OF(counts); i++) {
        struct world world = {.count = 0};
        worldWaitsForA(&world, counts[i], false);
        bool all = 1 + counts[i] <= CYCLEPRECHECK_MOST_OWNERS; /* and the newcomer's own */
        assert_int_equal(answerOf(&world), all ? CYCLEPRECHECK_NOBODY : CYCLEPRECHECK_MAYBE);
        worldEnd(&world);
    }
}

static void few_places_of_one_owner_are_all_looked_at_and_many_are_not(void **state) {
    (void)state;
    static const size_t counts[] = {1, 2, 15, 25, 50, CROWD};
    for (size_t i = 0; i < LENGTH_OF(counts); i++) {
        struct world world = {.count = 0};
        worldWaitsForA(&world, counts[i], true);
        /* Of each also those behind it. */
        assert_int_equal(answerOf(&world),
                         counts[i] < 20 ? CYCLEPRECHECK_NOBODY : CYCLEPRECHECK_MAYBE);
        worldEnd(&world);
    }
}

/* The holder of what the newcomer asks for has come last of those who wait for the newcomer. */
static void behind_any_number_of_others_the_one_that_matters_is_not_denied(void **state) {
    (void)state;
    for (int of_one_owner = 0; of_one_owner < 2; of_one_owner++) {
        for (size_t count = 0; count <= CROWD; count++) {
            struct world world = {.count = 0};
            worldWaitsForA(&world, count, of_one_owner);
            worldWaits(&world, "z", MODE_READ, 0);
            assert_int_equal(answerOf(&world), CYCLEPRECHECK_MAYBE);
            worldEnd(&world);
        }
    }
}

/* Likewise at the end of a chain: each waits for the one before, the first for the newcomer. */
static void at_the_end_of_a_chain_the_one_that_matters_is_not_denied(void **state) {
    (void)state;
    static const char *const chain[] = {"a", "w", "x", "y", "z"};
    static const size_t locks[] = {0, 2, 3, 4};
    struct world world = {.count = 0};
    worldHolds(&world, "z", MODE_WRITE, 1);
    for (size_t i = 0; i < LENGTH_OF(locks); i++) {
        worldHolds(&world, chain[i], MODE_WRITE, locks[i]);
        worldWaits(&world, chain[i + 1], MODE_WRITE, locks[i]);
        bool is_last = i + 1 == LENGTH_OF(locks);
        assert_int_equal(answerOf(&world), is_last ? CYCLEPRECHECK_MAYBE : CYCLEPRECHECK_NOBODY);
    }
    worldEnd(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(nobody_is_said_of_as_many_owners_as_are_asked_about_and_not_of_more),
        UNIT(few_places_of_one_owner_are_all_looked_at_and_many_are_not),
        UNIT(behind_any_number_of_others_the_one_that_matters_is_not_denied),
        UNIT(at_the_end_of_a_chain_the_one_that_matters_is_not_denied),
    };
    return cmocka_run_group_tests_name("cycleprecheck", tests, NULL, NULL);
}
