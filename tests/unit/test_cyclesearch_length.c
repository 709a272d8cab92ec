/* cyclesearch.[ch]: how many steps a search takes, and whether it gives up at its limit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "support/newrequest.h"
#include "support/unit.h"
#include "support/world.h"

static void with_one_contended_lock_no_holders_are_looked_up(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "h", MODE_WRITE, 0);
    for (size_t i = 0; i < 100; i++) {
        static char names[100][8];
        snprintf(names[i], sizeof names[i], "w%zu", i);
        worldWaits(&world, names[i], i % 2 ? MODE_READ : MODE_WRITE, 0);
    }
    struct newRequest new_request = newrequestOf("a", MODE_WRITE, 0);
    size_t calls = 0;
    size_t steps = 0;
    assert_int_equal(newrequestSearch(&world, &new_request, &steps, LOCKS_BY_HOLDS, &calls, NULL),
                     CYCLESEARCH_NO_CYCLE);
    assert_int_equal(steps, 0);
    assert_int_equal(calls, 0);
    worldEnd(&world);
}

static void holders_are_looked_up_once_for_each_queue_and_mode(void **state) {
    (void)state;
    struct world world = {.count = 0};
    static const char *const readers[] = {"b", "c", "d", "e"};
    for (size_t i = 0; i < LENGTH_OF(readers); i++) {
        worldHolds(&world, readers[i], MODE_READ, 0);
        worldWaits(&world, readers[i], i % 2 ? MODE_READ : MODE_WRITE, 1);
    }
    struct newRequest new_request = newrequestOf("a", MODE_WRITE, 0);
    size_t calls = 0;
    size_t steps = NEWREQUEST_NO_LIMIT;
    assert_int_equal(
        newrequestSearch(&world, &new_request, &steps, LOCKS_BY_HOLDS_UNPROVEN, &calls, NULL),
        CYCLESEARCH_NO_CYCLE);
    assert_int_equal(calls, 1 + 2);
    worldEnd(&world);
}

static void a_long_queue_is_not_walked(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "h", MODE_WRITE, 0);
    worldHolds(&world, "a", MODE_WRITE, 1);
    worldWaits(&world, "h", MODE_WRITE, 1);
    for (size_t i = 0; i < 100; i++) {
        worldWaits(&world, i % 2 ? "odd" : "even", MODE_WRITE, 2);
    }
    struct newRequest new_request = newrequestOf("b", MODE_WRITE, 0);
    size_t steps = 2;
    assert_int_equal(
        newrequestSearch(&world, &new_request, &steps, LOCKS_BY_HOLDS_UNPROVEN, NULL, NULL),
        CYCLESEARCH_NO_CYCLE);
    worldEnd(&world);
}

/* Without the pre-check's proof, which takes steps of its own. */
static void assertStepsNeededWith(int way, struct world *world, struct newRequest new_request,
                                  size_t needed, enum cyclesearchResult wanted) {
    for (size_t most = 0; most < needed + 3; most++) {
        struct cyclepathCycle *cycle = NULL;
        size_t steps = most;
        enum cyclesearchResult result =
            newrequestSearch(world, &new_request, &steps, way, NULL, &cycle);
        assert_int_equal(result, most < needed ? CYCLESEARCH_GAVE_UP : wanted);
        if (result == CYCLESEARCH_CYCLE) {
            memFree(cycle);
        } else {
            assert_null(cycle);
        }
        assert_int_equal(world->locks[5].queue.ties.length, 0);
    }
}

static void assertStepsNeeded(struct world *world, struct newRequest new_request, size_t needed,
                              enum cyclesearchResult wanted) {
    assertStepsNeededWith(LOCKS_BY_HOLDS_UNPROVEN, world, new_request, needed, wanted);
}

static void a_search_gives_up_above_the_limit_and_not_at_it(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "b", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "c", MODE_EXCLUSIVE, 1);
    worldHolds(&world, "a", MODE_EXCLUSIVE, 2);
    worldWaits(&world, "a", MODE_EXCLUSIVE, 5); /* a tie for the time of the search */
    worldWaits(&world, "b", MODE_EXCLUSIVE, 1);
    assertStepsNeeded(&world, newrequestOf("a", MODE_EXCLUSIVE, 0), 2, CYCLESEARCH_NO_CYCLE);
    worldWaits(&world, "c", MODE_EXCLUSIVE, 2);
    assertStepsNeeded(&world, newrequestOf("a", MODE_EXCLUSIVE, 0), 3, CYCLESEARCH_CYCLE);
    worldEnd(&world);
}

/* A tie is a step whether it conflicts or not, and so is a writer. */
static void ties_and_writers_are_steps(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldWaitsForTwo(&world, "r", MODE_READ, 0, 1);
    worldWaitsForTwo(&world, "s", MODE_READ, 0, 1);
    assertStepsNeeded(&world, newrequestOf("a", MODE_READ, 0), 2, CYCLESEARCH_NO_CYCLE);
    worldDetached(&world, "d", 0);
    worldDetached(&world, "e", 0);
    assertStepsNeeded(&world, newrequestOf("a", MODE_READ, 0), 4, CYCLESEARCH_NO_CYCLE);
    worldEnd(&world);
}

static void at_the_head_no_step_is_taken_for_waiters_behind(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldWaitsForTwo(&world, "w", MODE_WRITE, 0, 1);
    assertStepsNeeded(&world, newrequestFirst("a", MODE_WRITE, 0), 0, CYCLESEARCH_NO_CYCLE);
    worldEnd(&world);
}

static void holders_reported_after_the_cycle_was_found_change_nothing(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "b", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "a", MODE_READ, 1);
    worldHolds(&world, "c", MODE_READ, 1);
    worldWaits(&world, "b", MODE_WRITE, 1);
    worldWaits(&world, "c", MODE_WRITE, 2);
    assertStepsNeeded(&world, newrequestOf("a", MODE_EXCLUSIVE, 0), 2, CYCLESEARCH_CYCLE);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 0), "a 0 b, b 1 a");
    worldEnd(&world);
}

/* Each owner that is tested for holding a lock is a step, whatever the result. */
static void each_owner_tested_for_a_hold_is_a_step(void **state) {
    (void)state;
    struct world world = {.count = 0};
    static const char *const others[] = {"v", "w", "x", "y", "z"};
    worldHolds(&world, "b", MODE_READ, 0);
    worldHolds(&world, "h", MODE_READ, 1);
    worldWaits(&world, "b", MODE_WRITE, 1);
    for (size_t i = 0; i < LENGTH_OF(others); i++) {
        worldWaits(&world, others[i], MODE_WRITE, 2);
    }
    size_t tested = LENGTH_OF(others) + 2; /* and b, and the asker */
    size_t needed = tested + 1 + tested;   /* for lock 0, then b is reached, then for lock 1 */
    assertStepsNeededWith(LOCKS_BY_REQUESTS_UNPROVEN, &world, newrequestOf("a", MODE_WRITE, 0),
                          needed, CYCLESEARCH_NO_CYCLE);
    worldEnd(&world);
}

/* When the search returns to a lock that the asker requests, only the asker can be a new holder. */
static void no_owner_is_tested_twice_for_the_same_lock(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "b", MODE_READ, 0);
    worldHolds(&world, "c", MODE_READ, 1);
    worldWaits(&world, "b", MODE_WRITE, 1);
    worldWaits(&world, "c", MODE_WRITE, 0);
    /* a, b and c are tested for lock 0, and b is reached; the same for lock 1, and c is reached,
     * which waits for lock 0: a is tested. */
    assertStepsNeededWith(LOCKS_BY_REQUESTS_UNPROVEN, &world, newrequestOf("a", MODE_WRITE, 0),
                          3 + 1 + 3 + 1 + 1, CYCLESEARCH_NO_CYCLE);
    worldHolds(&world, "a", MODE_READ, 0);
    newrequestAssertCycle(&world, newrequestFirst("a", MODE_WRITE, 0), "a 0 b, b 1 c, c 0 a");
    worldEnd(&world);
}

/* A position that waits for no owner, because its own owner holds that lock, is a step. No request
 * is a copy of the one before: they name the locks in another order. */
static void positions_of_a_holder_are_steps(void **state) {
    (void)state;
    static const enum lockMode modes[] = {MODE_EXCLUSIVE, MODE_WRITE};
    for (size_t mode = 0; mode < LENGTH_OF(modes); mode++) {
        struct world world = {.count = 0};
        worldHolds(&world, "b", modes[mode], 0);
        worldHolds(&world, "h", modes[mode], 1);
        const size_t waits = 5;
        for (size_t i = 0; i < waits; i++) {
            worldWaitsForTwo(&world, "b", modes[mode], i % 2, 1 - i % 2);
        }
        size_t from_a = 1 + waits; /* b, which holds lock 0, and the ties there */
        size_t at_0 = 1 + waits;   /* b once more, and the positions */
        size_t at_1 = 1 + waits;   /* h; and the ties there */
        if (modes[mode] == MODE_WRITE) {
            at_1 += waits; /* whether b holds lock 1, for each of its positions */
        }
        assertStepsNeeded(&world, newrequestOf("a", modes[mode], 0), from_a + at_0 + at_1,
                          CYCLESEARCH_NO_CYCLE);
        worldEnd(&world);
    }
}

/* However often an owner waits for the same, one of its requests is examined. */
static void copies_are_no_steps(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "b", MODE_EXCLUSIVE, 0);
    worldHolds(&world, "h", MODE_EXCLUSIVE, 1);
    for (size_t i = 0; i < 50; i++) {
        worldWaitsForTwo(&world, "b", MODE_EXCLUSIVE, 0, 1);
    }
    size_t of_one = (1 + 1) + (1 + 1) + (1 + 1); /* as above */
    assertStepsNeeded(&world, newrequestOf("a", MODE_EXCLUSIVE, 0), of_one, CYCLESEARCH_NO_CYCLE);
    worldEnd(&world);
}

static char crowd[50][8];

/* They wait for locks 0 and 1, which b holds. b waits for none of them. */
static void worldCrowd(struct world *world) {
    worldHolds(world, "b", MODE_EXCLUSIVE, 0);
    worldHolds(world, "b", MODE_EXCLUSIVE, 1);
    for (size_t i = 0; i < LENGTH_OF(crowd); i++) {
        snprintf(crowd[i], sizeof crowd[i], "w%zu", i);
        worldWaitsForTwo(world, crowd[i], MODE_EXCLUSIVE, 0, 1);
    }
}

static void holders_are_followed_before_ties(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldHolds(&world, "c", MODE_EXCLUSIVE, 2);
    worldHolds(&world, "a", MODE_EXCLUSIVE, 3);
    worldCrowd(&world);
    worldWaits(&world, "b", MODE_EXCLUSIVE, 2);
    worldWaits(&world, "c", MODE_EXCLUSIVE, 3);
    assertStepsNeeded(&world, newrequestOf("a", MODE_EXCLUSIVE, 0), 3, CYCLESEARCH_CYCLE);
    newrequestAssertCycle(&world, newrequestOf("a", MODE_EXCLUSIVE, 0), "a 0 b, b 2 c, c 3 a");
    worldEnd(&world);
}

static void assertStepsTaken(struct world *world, struct newRequest new_request, size_t most) {
    size_t steps = NEWREQUEST_NO_LIMIT;
    assert_int_equal(newrequestSearch(world, &new_request, &steps, LOCKS_BY_HOLDS, NULL, NULL),
                     CYCLESEARCH_NO_CYCLE);
    assert_in_range(steps, 0, most);
}

static void many_waiters_for_the_same_locks_take_few_steps(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldCrowd(&world);
    assertStepsTaken(&world, newrequestOf("a", MODE_EXCLUSIVE, 0), 3);
    worldHolds(&world, "a", MODE_EXCLUSIVE, 2);
    worldHolds(&world, "c", MODE_EXCLUSIVE, 3);
    worldWaits(&world, "c", MODE_EXCLUSIVE, 2); /* for a */
    worldWaits(&world, "d", MODE_EXCLUSIVE, 3); /* for c */
    assertStepsTaken(&world, newrequestOf("a", MODE_EXCLUSIVE, 0), 30);
    worldEnd(&world);
}

#define LONG 10000

/* LONG owners, each of which holds a lock and waits for that of the next. */
struct chain {
    struct waitgraph graph;
    struct fakeLock locks[LONG];
    struct waitRequest requests[LONG];
    struct position positions[LONG];
    char names[LONG][8];
};

static struct chain *newChain(void) {
    struct chain *chain = calloc(1, sizeof *chain);
    assert_non_null(chain);
    for (size_t i = 0; i < LONG; i++) {
        snprintf(chain->names[i], sizeof chain->names[i], "%zu", i);
        chain->requests[i] = worldRequest(chain->names[i]);
        lockHold(&chain->locks[i], chain->names[i], strlen(chain->names[i]), MODE_EXCLUSIVE);
    }
    for (size_t i = 0; i < LONG - 1; i++) {
        waitqueueAdd(&chain->locks[i + 1].queue, &chain->positions[i], &chain->requests[i],
                     MODE_EXCLUSIVE);
        waitgraphEnter(&chain->graph, &chain->requests[i]);
    }
    return chain;
}

static void freeChain(struct chain *chain) {
    for (size_t i = 0; i < LONG - 1; i++) {
        waitgraphLeave(&chain->graph, &chain->requests[i]);
        waitqueueRemove(&chain->positions[i]);
    }
    free(chain);
}

static void assertIsWholeChain(const struct chain *chain, const struct cyclepathCycle *cycle) {
    assert_int_equal(cycle->length, LONG);
    for (size_t i = 0; i < LONG; i++) {
        const char *name = chain->names[(i + LONG - 1) % LONG];
        assert_int_equal(cycle->steps[i].owner_length, strlen(name));
        assert_memory_equal(cycle->steps[i].owner, name, strlen(name));
        assert_ptr_equal(cycle->steps[i].queue, &chain->locks[i].queue);
        assert_false(cycle->steps[i].behind);
    }
}

/* The result for a newcomer that requests the first lock of the chain, with a limit of steps. */
static enum cyclesearchResult searchFrom(struct chain *chain, const char *owner, size_t steps,
                                         int way, struct cyclepathCycle **cycle) {
    struct waitRequest newcomer = worldRequest(owner);
    struct position position = {0};
    const struct lockSearch how = {.way = way, .most = steps, .slice = 100};
    waitqueueAdd(&chain->locks[0].queue, &position, &newcomer, MODE_EXCLUSIVE);
    struct cyclesearchFound found = lockSearch(&chain->graph, &newcomer, &how);
    if (cycle) {
        *cycle = found.cycle;
    }
    waitqueueRemove(&position);
    return found.result;
}

static void a_chain_of_ten_thousand_waits(void **state) {
    (void)state;
    struct chain *chain = newChain();
    const char *last = chain->names[LONG - 1];
    struct cyclepathCycle *cycle = NULL;
    for (int way = LOCKS_BY_HOLDS; way < LOCKS_WAYS; way += LOCKS_BY_HOLDS_UNPROVEN) {
        assert_int_equal(searchFrom(chain, "stranger", LONG, way, &cycle), CYCLESEARCH_NO_CYCLE);
        assert_int_equal(searchFrom(chain, last, LONG - 1, way, &cycle), CYCLESEARCH_GAVE_UP);
        assert_int_equal(searchFrom(chain, last, LONG, way, &cycle), CYCLESEARCH_CYCLE);
        assertIsWholeChain(chain, cycle);
        memFree(cycle);
    }
    freeChain(chain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(with_one_contended_lock_no_holders_are_looked_up),
        UNIT(holders_are_looked_up_once_for_each_queue_and_mode),
        UNIT(a_long_queue_is_not_walked),
        UNIT(a_search_gives_up_above_the_limit_and_not_at_it),
        UNIT(ties_and_writers_are_steps),
        UNIT(at_the_head_no_step_is_taken_for_waiters_behind),
        UNIT(holders_reported_after_the_cycle_was_found_change_nothing),
        UNIT(each_owner_tested_for_a_hold_is_a_step),
        UNIT(no_owner_is_tested_twice_for_the_same_lock),
        UNIT(positions_of_a_holder_are_steps),
        UNIT(copies_are_no_steps),
        UNIT(holders_are_followed_before_ties),
        UNIT(many_waiters_for_the_same_locks_take_few_steps),
        UNIT(a_chain_of_ten_thousand_waits),
    };
    return cmocka_run_group_tests_name("cyclesearch, length", tests, NULL, NULL);
}
