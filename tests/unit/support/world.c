/* See world.h. */
#include "world.h"

#include <string.h>

#include "unit.h"

struct waitRequest worldRequest(const char *owner, enum lockMode mode) {
    return (struct waitRequest){
        .owner = owner, .owner_length = strlen(owner), .mode = mode, .discipline = ORDERED};
}

void worldHolds(struct world *world, const char *owner, enum lockMode mode, size_t lock) {
    lockHold(&world->locks[lock], owner, strlen(owner), mode);
}

struct wait *worldQueueRequest(struct world *world, struct waitRequest request, size_t lock) {
    assert_true(world->count < WORLD_MOST_WAITS);
    struct wait *wait = &world->waits[world->count++];
    wait->request = request;
    waitqueueAdd(&world->locks[lock].queue, &wait->positions[0], &wait->request);
    return wait;
}

struct wait *worldQueue(struct world *world, const char *owner, enum lockMode mode, size_t lock) {
    return worldQueueRequest(world, worldRequest(owner, mode), lock);
}

struct wait *worldWaits(struct world *world, const char *owner, enum lockMode mode, size_t lock) {
    struct wait *wait = worldQueue(world, owner, mode, lock);
    waitgraphEnter(&world->graph, &wait->request);
    return wait;
}

struct wait *worldWaitsForTwo(struct world *world, const char *owner, enum lockMode mode,
                              size_t one, size_t other) {
    struct waitRequest request = worldRequest(owner, mode);
    request.discipline = MULTIKEY;
    struct wait *wait = worldQueueRequest(world, request, one);
    waitqueueAdd(&world->locks[other].queue, &wait->positions[1], &wait->request);
    waitgraphEnter(&world->graph, &wait->request);
    return wait;
}

struct wait *worldDetached(struct world *world, const char *owner, size_t lock) {
    struct waitRequest request = worldRequest(owner, MODE_EXCLUSIVE);
    request.discipline = FAIR;
    return worldQueueRequest(world, request, lock);
}

void worldWaitEnds(struct world *world, struct wait *wait) {
    waitgraphLeave(&world->graph, &wait->request);
    for (size_t i = 0; i < WORLD_LOCKS; i++) {
        if (wait->positions[i].queue) {
            waitqueueRemove(&wait->positions[i]);
        }
    }
}

void worldAssertNoTies(const struct world *world) {
    for (size_t i = 0; i < WORLD_LOCKS; i++) {
        assert_int_equal(world->locks[i].queue.ties.length, 0);
        assert_null(world->locks[i].queue.ties.first);
    }
}

void worldEnd(struct world *world) {
    for (size_t i = 0; i < world->count; i++) {
        worldWaitEnds(world, &world->waits[i]);
    }
    worldAssertNoTies(world);
    assert_int_equal(waitgraphSize(&world->graph), 0);
    for (size_t i = 0; i < WORLD_LOCKS; i++) {
        assert_int_equal(world->locks[i].queue.in_graph, 0);
        assert_int_equal(world->locks[i].queue.writers.length, 0);
        assert_int_equal(world->locks[i].queue.multikey, 0);
    }
}
