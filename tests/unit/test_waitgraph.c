/* waitgraph.[ch]: what the graph records of waits that begin and end in any order. */
#include "core/waitgraph.h"

#include "support/unit.h"
#include "support/world.h"

static void leaving_without_having_entered_does_nothing(void **state) {
    (void)state;
    struct world world = {.count = 0};
    struct wait *wait = worldDetached(&world, "d", 0);
    worldWaits(&world, "d", MODE_WRITE, 0);
    waitgraphLeave(&world.graph, &wait->request);
    assert_int_equal(waitgraphSize(&world.graph), 1);
    assert_int_equal(world.locks[0].queue.in_graph, 1);
    worldEnd(&world);
}

static void a_newcomer_is_not_in_the_graph_before_it_enters(void **state) {
    (void)state;
    struct world world = {.count = 0};
    struct waitgraph *graph = &world.graph;
    struct waitRequest *newcomers[3];
    for (size_t i = 0; i < LENGTH_OF(newcomers); i++) {
        newcomers[i] = &worldQueue(&world, "o", MODE_WRITE, 0)->request;
        waitgraphAnnounce(graph, newcomers[i]);
        assert_false(waitgraphHas(newcomers[i]));
    }
    assert_ptr_equal(waitgraphFirstNewcomer(graph), newcomers[0]);
    waitgraphEnter(graph, newcomers[0]);
    assert_true(waitgraphHas(newcomers[0]));
    waitgraphLeave(graph, newcomers[1]);
    assert_ptr_equal(waitgraphFirstNewcomer(graph), newcomers[2]);
    waitgraphLeave(graph, newcomers[2]);
    assert_null(waitgraphFirstNewcomer(graph));
    assert_int_equal(waitgraphSize(graph), 1);
    worldEnd(&world);
}

#define OWN 4 /* requests of one owner: two for one lock, one elsewhere, one for two locks */

static void standAll(struct world *world) {
    static const size_t locks[OWN] = {0, 0, 1, 1};
    for (size_t i = 0; i < OWN; i++) {
        worldQueue(world, "o", MODE_WRITE, locks[i]);
    }
    waitqueueAdd(&world->locks[2].queue, &world->waits[3].positions[1], &world->waits[3].request,
                 MODE_WRITE);
    worldWaits(world, "other", MODE_WRITE, 0); /* is never a tie */
}

/* The positions of the requests in the graph are ties if they are in more than one queue; a single
 * position is none. Several in one queue may be ties still, if they were before. Of the two
 * requests for the same lock, one is a copy, which is no tie. */
static void assertTies(const struct world *world, const bool *is_in) {
    const size_t at[] = {is_in[0] || is_in[1], is_in[2] + (size_t)is_in[3], is_in[3]};
    size_t own = at[0] + at[1] + at[2];
    bool elsewhere = (at[0] > 0) + (at[1] > 0) + (at[2] > 0) > 1;
    bool tied =
        elsewhere || world->locks[0].queue.ties.length + world->locks[1].queue.ties.length > 0;
    assert_true(!tied || own > 1 || (is_in[0] && is_in[1]));
    assert_true(!(world->waits[0].request.is_copy && world->waits[1].request.is_copy));
    for (size_t i = 0; i < OWN; i++) {
        bool is_copy = world->waits[i].request.is_copy;
        assert_true(!is_copy || (i < 2 && is_in[0] && is_in[1]));
        assert_int_equal(world->waits[i].positions[0].is_tie, is_in[i] && tied && !is_copy);
    }
    size_t both = is_in[0] && is_in[1];
    size_t copies = world->waits[0].request.is_copy + (size_t)world->waits[1].request.is_copy;
    assert_int_equal(world->locks[0].queue.in_graph, at[0] + both + 1);
    assert_int_equal(world->locks[0].queue.ties.length, tied ? at[0] + both - copies : 0);
    for (size_t i = 1; i < LENGTH_OF(at); i++) {
        assert_int_equal(world->locks[i].queue.in_graph, at[i]);
        assert_int_equal(world->locks[i].queue.ties.length, tied ? at[i] : 0);
    }
}

/* The number at place `at` in the permutation of 0 to OWN - 1 that has this number. */
static size_t inPermutation(size_t number, size_t at) {
    size_t left[OWN] = {0, 1, 2, 3}, count = OWN, chosen = 0;
    for (size_t i = 0; i <= at; i++) {
        size_t which = number % count;
        number /= count;
        chosen = left[which];
        count--;
        for (size_t j = which; j < count; j++) {
            left[j] = left[j + 1];
        }
    }
    return chosen;
}

static void ties_are_correct_in_every_order_of_entering_and_leaving(void **state) {
    (void)state;
    for (size_t orders = 0; orders < (size_t)24 * 24; orders++) {
        struct world world = {.count = 0};
        bool is_in[OWN] = {false};
        standAll(&world);
        for (size_t i = 0; i < 2 * OWN; i++) {
            size_t which = inPermutation(i < OWN ? orders % 24 : orders / 24, i % OWN);
            if (i < OWN) {
                waitgraphEnter(&world.graph, &world.waits[which].request);
            } else {
                waitgraphLeave(&world.graph, &world.waits[which].request);
            }
            is_in[which] = i < OWN;
            assertTies(&world, is_in);
        }
        assert_int_equal(waitgraphSize(&world.graph), 1);
        worldEnd(&world);
    }
}

static size_t countQueuesWaitedIn(struct waitgraph *graph) {
    size_t count = 0;
    const struct waitqueue *queue;
    waitgraphWalkWaited(graph);
    while ((queue = waitgraphNextWaited(graph))) {
        assert_true(queue->in_graph > 0);
        count++;
    }
    return count;
}

static void queues_are_listed_as_long_as_a_request_of_the_graph_is_in_them(void **state) {
    (void)state;
    struct world world = {.count = 0};
    worldQueue(&world, "newcomer", MODE_WRITE, 3);
    assert_int_equal(countQueuesWaitedIn(&world.graph), 0);
    struct wait *one = worldWaits(&world, "a", MODE_WRITE, 0);
    struct wait *both = worldWaitsForTwo(&world, "b", MODE_EXCLUSIVE, 0, 1);
    assert_int_equal(countQueuesWaitedIn(&world.graph), 2);
    worldWaitEnds(&world, one);
    assert_int_equal(countQueuesWaitedIn(&world.graph), 2);
    worldWaitEnds(&world, both);
    assert_int_equal(countQueuesWaitedIn(&world.graph), 0);
    worldEnd(&world);
}

static void what_leaves_during_a_walk_is_not_visited(void **state) {
    (void)state;
    struct world world = {.count = 0};
    struct wait *waits[3];
    for (size_t i = 0; i < LENGTH_OF(waits); i++) {
        waits[i] = worldWaits(&world, i == 1 ? "b" : "a", MODE_WRITE, i);
    }
    waitgraphWalkWaited(&world.graph);
    waitgraphWalkRequests(&world.graph);
    assert_ptr_equal(waitgraphNextWaited(&world.graph), &world.locks[0].queue);
    assert_ptr_equal(waitgraphNextRequest(&world.graph), &waits[0]->request);
    worldWaitEnds(&world, waits[1]);
    assert_ptr_equal(waitgraphNextWaited(&world.graph), &world.locks[2].queue);
    assert_ptr_equal(waitgraphNextRequest(&world.graph), &waits[2]->request);
    assert_null(waitgraphNextWaited(&world.graph));
    assert_null(waitgraphNextRequest(&world.graph));
    worldEnd(&world);
}

/* Whether the request of an owner that already waits `count` times here in `before` requests
 * nothing new. The owner also waits for another lock. */
static bool requestsNothingNewAfter(size_t count, enum lockMode before, enum lockMode mode) {
    struct world world = {.count = 0};
    worldWaits(&world, "o", MODE_WRITE, 1);
    for (size_t i = 0; i < count; i++) {
        worldWaits(&world, "o", before, 0);
    }
    worldWaits(&world, "other", MODE_WRITE, 0);
    struct wait *newcomer = worldQueue(&world, "o", mode, 0);
    waitgraphAnnounce(&world.graph, &newcomer->request);
    bool nothing_new = waitgraphAsksForNothingNew(&newcomer->request);
    worldEnd(&world);
    return nothing_new;
}

static void the_seventeenth_wait_of_an_owner_for_a_lock_requests_nothing_new(void **state) {
    (void)state;
    for (size_t count = 0; count < 100; count++) {
        assert_int_equal(requestsNothingNewAfter(count, MODE_WRITE, MODE_WRITE), count >= 16);
        assert_int_equal(requestsNothingNewAfter(count, MODE_READ, MODE_READ), count >= 16);
    }
}

static void a_writer_requests_something_new_behind_readers_but_not_the_reverse(void **state) {
    (void)state;
    for (size_t count = 0; count < 40; count++) {
        assert_false(requestsNothingNewAfter(count, MODE_READ, MODE_WRITE));
        assert_int_equal(requestsNothingNewAfter(count, MODE_WRITE, MODE_READ), count >= 16);
    }
}

/* The same for an upgrade, which is at the head. After `other` of them, another owner's upgrade is
 * added. */
static bool upgradeRequestsNothingNewAfter(size_t count, size_t other) {
    struct world world = {.count = 0};
    struct wait *newcomer = NULL;
    for (size_t i = 0; i <= count; i++) {
        newcomer = worldQueue(&world, "o", MODE_WRITE, 0);
        waitqueueMoveFirst(&newcomer->positions[0]);
        if (i < count) {
            waitgraphEnter(&world.graph, &newcomer->request);
        }
        if (i == other) {
            struct wait *wait = worldWaits(&world, "other", MODE_WRITE, 0);
            waitqueueMoveFirst(&wait->positions[0]);
        }
    }
    waitgraphAnnounce(&world.graph, &newcomer->request);
    bool nothing_new = waitgraphAsksForNothingNew(&newcomer->request);
    worldEnd(&world);
    return nothing_new;
}

static void the_seventeenth_upgrade_of_an_owner_requests_nothing_new(void **state) {
    (void)state;
    for (size_t count = 0; count < 50; count++) {
        assert_int_equal(upgradeRequestsNothingNewAfter(count, 100), count >= 16);
        /* Sixteen on one side of the other owner's. */
        bool is_enough = (count >= 16 && count <= 20) || count >= 37;
        assert_int_equal(upgradeRequestsNothingNewAfter(count, 20), is_enough);
    }
}

/* Whether a request of an owner that already waits `count` times to read lock 0 and write lock 1
 * requests nothing new. */
static bool repeatRequestsNothingNewAfter(size_t count, struct worldLock one,
                                          struct worldLock other) {
    struct world world = {.count = 0};
    worldWaits(&world, "o", MODE_WRITE, 3);
    for (size_t i = 0; i < count; i++) {
        worldWaitsForBoth(&world, "o", worldToRead(0), worldToWrite(1));
    }
    struct wait *newcomer = worldQueueForBoth(&world, "o", one, other);
    bool nothing_new = waitgraphAsksForNothingNew(&newcomer->request);
    worldEnd(&world);
    return nothing_new;
}

static void the_seventeenth_wait_for_the_same_keys_requests_nothing_new(void **state) {
    (void)state;
    for (size_t count = 0; count < 40; count++) {
        assert_int_equal(repeatRequestsNothingNewAfter(count, worldToRead(0), worldToWrite(1)),
                         count >= 16);
        assert_false(repeatRequestsNothingNewAfter(count, worldToRead(0), worldToWrite(2)));
    }
}

static void a_wait_for_the_same_keys_in_other_modes_requests_something_new(void **state) {
    (void)state;
    for (size_t count = 0; count < 40; count++) {
        assert_false(repeatRequestsNothingNewAfter(count, worldToRead(0), worldToRead(1)));
        assert_false(repeatRequestsNothingNewAfter(count, worldToWrite(0), worldToWrite(1)));
        assert_false(repeatRequestsNothingNewAfter(count, worldToWrite(0), worldToRead(1)));
    }
}

static void a_copy_waits_for_each_of_its_keys_in_the_same_mode(void **state) {
    (void)state;
    struct world world = {.count = 0};
    struct wait *first = worldWaitsForBoth(&world, "o", worldToRead(0), worldToWrite(1));
    struct wait *copy = worldWaitsForBoth(&world, "o", worldToRead(0), worldToWrite(1));
    assert_false(first->request.is_copy);
    assert_true(copy->request.is_copy);
    assert_false(copy->positions[0].is_tie || copy->positions[1].is_tie);
    struct wait *other = worldWaitsForBoth(&world, "o", worldToRead(0), worldToRead(1));
    assert_false(other->request.is_copy);
    assert_true(other->positions[0].is_tie && other->positions[1].is_tie);
    worldWaitEnds(&world, first);
    assert_false(copy->request.is_copy);
    assert_true(copy->positions[0].is_tie && copy->positions[1].is_tie);
    worldEnd(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(leaving_without_having_entered_does_nothing),
        UNIT(a_newcomer_is_not_in_the_graph_before_it_enters),
        UNIT(ties_are_correct_in_every_order_of_entering_and_leaving),
        UNIT(queues_are_listed_as_long_as_a_request_of_the_graph_is_in_them),
        UNIT(what_leaves_during_a_walk_is_not_visited),
        UNIT(the_seventeenth_wait_of_an_owner_for_a_lock_requests_nothing_new),
        UNIT(a_writer_requests_something_new_behind_readers_but_not_the_reverse),
        UNIT(the_seventeenth_upgrade_of_an_owner_requests_nothing_new),
        UNIT(the_seventeenth_wait_for_the_same_keys_requests_nothing_new),
        UNIT(a_wait_for_the_same_keys_in_other_modes_requests_something_new),
        UNIT(a_copy_waits_for_each_of_its_keys_in_the_same_mode),
    };
    return cmocka_run_group_tests_name("waitgraph", tests, NULL, NULL);
}
