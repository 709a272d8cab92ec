/* queuecheck.[ch]: the checks of the checking build detect each kind of damage. */
#include <string.h>

#include "core/queuecheck.h"
#include "support/unit.h"
#include "support/world.h"

/* Three requests wait for lock 0: a write, one for several keys that also waits for lock 1, a read.
 */
static void fill(struct world *world) {
    *world = (struct world){.count = 0};
    worldWaits(world, "a", MODE_WRITE, 0);
    worldWaitsForTwo(world, "b", MODE_EXCLUSIVE, 0, 1);
    worldWaits(world, "c", MODE_READ, 0);
}

static void assertFault(const struct world *world, const char *part) {
    const char *fault = queuecheckFault(&world->locks[0].queue);
    assert_non_null(fault);
    assert_non_null(strstr(fault, part));
}

static void a_queue_in_use_has_no_fault(void **state) {
    (void)state;
    struct world world;
    fill(&world);
    assert_null(queuecheckFault(&world.locks[0].queue));
    assert_null(queuecheckFault(&world.locks[1].queue));
    worldEnd(&world);
    assert_null(queuecheckFault(&world.locks[0].queue));
}

static void order_is_checked(void **state) {
    (void)state;
    struct world world;
    fill(&world);
    int64_t order = world.waits[1].positions[0].order;
    world.waits[1].positions[0].order = world.waits[0].positions[0].order;
    assertFault(&world, "out of order");
    world.waits[1].positions[0].order = order;
    worldEnd(&world);
}

static void counts_are_checked(void **state) {
    (void)state;
    struct world world;
    fill(&world);
    struct waitqueue *queue = &world.locks[0].queue;
    queue->by_mode[MODE_READ]++;
    assertFault(&world, "of a kind");
    queue->by_mode[MODE_READ]--;
    queue->multikey--;
    assertFault(&world, "of a kind");
    queue->multikey++;
    queue->in_graph++;
    assertFault(&world, "in the graph");
    queue->in_graph--;
    queue->positions.length++;
    assertFault(&world, "number of positions");
    queue->positions.length--;
    worldEnd(&world);
}

static void counts_of_owners_are_checked(void **state) {
    (void)state;
    struct world world;
    fill(&world);
    struct waitqueueOwn *own = &world.waits[1].positions[0].own;
    own->by_mode[MODE_EXCLUSIVE]++;
    assertFault(&world, "of a mode");
    own->by_mode[MODE_EXCLUSIVE]--;
    own->multikey--;
    assertFault(&world, "for several keys");
    own->multikey++;
    worldEnd(&world);
}

static void writers_are_checked(void **state) {
    (void)state;
    struct world world;
    fill(&world);
    struct waitqueue *queue = &world.locks[0].queue;
    struct link *first = queue->writers.first;
    queue->writers.first = first->next;
    assertFault(&world, "writers");
    queue->writers.first = first;
    worldEnd(&world);
}

/* Three readers wait for lock 0: one that stands aside, and two candidates. */
static void fillWithReaders(struct world *world) {
    *world = (struct world){.count = 0};
    struct wait *aside = worldWaitsForBoth(world, "a", worldToRead(0), worldToWrite(1));
    waitqueueStandAside(&aside->positions[0]);
    worldWaits(world, "b", MODE_READ, 0);
    worldWaits(world, "c", MODE_READ, 0);
    assert_null(queuecheckFault(&world->locks[0].queue));
}

static void a_missing_candidate_is_detected(void **state) {
    (void)state;
    struct world world;
    fillWithReaders(&world);
    struct list *candidates = &world.locks[0].queue.candidates;
    for (size_t i = 1; i < 3; i++) {
        struct link *link = &world.waits[i].positions[0].in_candidates, *next = link->next;
        listRemove(candidates, link);
        assertFault(&world, "candidates in another order");
        listInsertBefore(candidates, next, link);
        assert_null(queuecheckFault(&world.locks[0].queue));
    }
    worldEnd(&world);
}

static void candidates_out_of_order_are_detected(void **state) {
    (void)state;
    struct world world;
    fillWithReaders(&world);
    struct list *candidates = &world.locks[0].queue.candidates;
    struct link *first = candidates->first;
    listRemove(candidates, first);
    listAddLast(candidates, first);
    assertFault(&world, "candidates in another order");
    listRemove(candidates, first);
    listInsertBefore(candidates, candidates->first, first);
    worldEnd(&world);
}

static void a_candidate_that_stands_aside_is_detected(void **state) {
    (void)state;
    struct world world;
    fillWithReaders(&world);
    world.waits[1].positions[0].is_aside = true;
    assertFault(&world, "candidates in another order");
    world.waits[1].positions[0].is_aside = false;
    world.waits[2].positions[0].is_aside = true; /* the last one */
    assertFault(&world, "a candidate that has no position");
    world.waits[2].positions[0].is_aside = false;
    world.waits[0].positions[0].is_aside = false;
    assertFault(&world, "candidates in another order");
    world.waits[0].positions[0].is_aside = true;
    worldEnd(&world);
}

static void a_writer_that_stands_aside_is_detected(void **state) {
    (void)state;
    static const enum lockMode modes[] = {MODE_WRITE, MODE_EXCLUSIVE, MODE_SEMAPHORE};
    for (size_t i = 0; i < LENGTH_OF(modes); i++) {
        struct world world = {.count = 0};
        struct wait *wait = worldQueue(&world, "a", modes[i], 0);
        waitqueueStandAside(&wait->positions[0]);
        assertFault(&world, "stands aside though it excludes readers");
        waitqueueStandIn(&wait->positions[0]);
        assert_null(queuecheckFault(&world.locks[0].queue));
        worldEnd(&world);
    }
}

static void the_mode_of_a_position_is_checked(void **state) {
    (void)state;
    struct world world;
    fill(&world);
    struct position *position = &world.waits[0].positions[0];
    position->mode = MODE_COUNT;
    assertFault(&world, "of no mode");
    position->mode = MODE_READ;
    assertFault(&world, "of a kind");
    position->mode = MODE_WRITE;
    worldEnd(&world);
}

static void ties_are_checked(void **state) {
    (void)state;
    struct world world;
    fill(&world);
    struct position *position = &world.waits[1].positions[0];
    assert_true(position->is_tie);
    position->is_tie = false;
    assertFault(&world, "tie");
    position->is_tie = true;
    world.waits[0].request.is_newcomer = true;
    assertFault(&world, "searched from");
    world.waits[0].request.is_newcomer = false;
    world.locks[0].queue.graph_end = position->order;
    assertFault(&world, "graph's end");
    world.locks[0].queue.graph_end = INT64_MAX;
    worldEnd(&world);
}

static void names_of_owners_are_checked(void **state) {
    (void)state;
    struct world world;
    fill(&world);
    const char *owner = world.waits[0].request.owner;
    world.waits[0].request.owner = "x";
    assertFault(&world, "owner's name");
    world.waits[0].request.owner = owner;
    struct waitqueue *queue = world.waits[0].positions[0].queue;
    world.waits[0].positions[0].queue = &world.locks[1].queue;
    assertFault(&world, "another queue");
    world.waits[0].positions[0].queue = queue;
    worldEnd(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_queue_in_use_has_no_fault),
        UNIT(order_is_checked),
        UNIT(counts_are_checked),
        UNIT(writers_are_checked),
        UNIT(a_missing_candidate_is_detected),
        UNIT(candidates_out_of_order_are_detected),
        UNIT(a_candidate_that_stands_aside_is_detected),
        UNIT(a_writer_that_stands_aside_is_detected),
        UNIT(the_mode_of_a_position_is_checked),
        UNIT(ties_are_checked),
        UNIT(names_of_owners_are_checked),
        UNIT(counts_of_owners_are_checked),
    };
    return cmocka_run_group_tests_name("queuecheck", tests, NULL, NULL);
}
