/* cycleprecheck.[ch]: above its limits the answer is "maybe", never "no owner". */
#include "core/cycleprecheck.h"

#include <stdio.h>

#include "support/locks.h"
#include "support/unit.h"
#include "support/world.h"

#define CROWD 100

static char names[CROWD][24];

/* The answer for a newcomer that requests lock 1, which z holds. */
static enum cycleprecheckAnswer answerOf(struct world *world) {
    const struct cyclesearchAsked holds = lockCallbacks(LOCKS_BY_HOLDS, NULL);
    struct wait *newcomer = worldQueue(world, "a", MODE_WRITE, 1);
    struct cycleprecheck precheck;
    waitgraphAnnounce(&world->graph, &newcomer->request);
    cycleprecheckBegin(&precheck, &world->graph, &newcomer->request,
                       (struct cycleprecheckHolders){holds.is_holder, NULL});
    while (precheck.answer == CYCLEPRECHECK_CONTINUES) {
        cycleprecheckContinue(&precheck);
    }
    worldWaitEnds(world, newcomer);
    world->count--;
    return precheck.answer;
}

/* `count` requests wait for a: each of another owner, or all of one owner. */
static void worldWaitsForA(struct world *world, size_t count, bool of_one_owner) {
    worldHolds(world, "a", MODE_WRITE, 0);
    worldHolds(world, "z", MODE_WRITE, 1);
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "w%zu", of_one_owner ? 0 : i);
        worldWaits(world, names[i], MODE_READ, 0);
    }
}

static void the_answer_is_maybe_if_there_are_more_owners_than_the_limit(void **state) {
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

static void few_positions_of_one_owner_are_all_checked_and_many_are_not(void **state) {
    (void)state;
    static const size_t counts[] = {1, 2, 15, 25, 50, CROWD};
    for (size_t i = 0; i < LENGTH_OF(counts); i++) {
        struct world world = {.count = 0};
        worldWaitsForA(&world, counts[i], true);
        /* For each position, the ones behind it are checked too. */
        assert_int_equal(answerOf(&world),
                         counts[i] < 20 ? CYCLEPRECHECK_NOBODY : CYCLEPRECHECK_MAYBE);
        worldEnd(&world);
    }
}

/* Of the owners that wait for the newcomer's owner, the last one holds what the newcomer requests.
 */
static void the_answer_is_maybe_however_many_wait_before_the_relevant_owner(void **state) {
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

/* The same at the end of a chain: each owner waits for the one before, the first for the
 * newcomer's. */
static void the_answer_is_maybe_if_the_relevant_owner_ends_a_chain(void **state) {
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
        UNIT(the_answer_is_maybe_if_there_are_more_owners_than_the_limit),
        UNIT(few_positions_of_one_owner_are_all_checked_and_many_are_not),
        UNIT(the_answer_is_maybe_however_many_wait_before_the_relevant_owner),
        UNIT(the_answer_is_maybe_if_the_relevant_owner_ends_a_chain),
    };
    return cmocka_run_group_tests_name("cycleprecheck", tests, NULL, NULL);
}
