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
        UNIT(ties_are_checked),
        UNIT(names_of_owners_are_checked),
        UNIT(counts_of_owners_are_checked),
    };
    return cmocka_run_group_tests_name("queuecheck", tests, NULL, NULL);
}
