/* See world.h. */
#include "world.h"

#include <string.h>

#include "unit.h"

struct waitRequest worldRequest(const char *owner) {
    return (struct waitRequest){
        .owner = owner, .owner_length = strlen(owner), .discipline = ORDERED};
}

struct waitRequest worldMultikey(const char *owner) {
    struct waitRequest request = worldRequest(owner);
    request.discipline = MULTIKEY;
    return request;
}

struct worldLock worldPlain(size_t lock) {
    return (struct worldLock){.mode = MODE_EXCLUSIVE, .lock = lock};
}

struct worldLock worldToRead(size_t lock) {
    return (struct worldLock){.mode = MODE_READ, .lock = lock};
}

struct worldLock worldToWrite(size_t lock) {
    return (struct worldLock){.mode = MODE_WRITE, .lock = lock};
}

struct worldLock worldUpgrade(size_t lock) {
    return (struct worldLock){.mode = MODE_WRITE, .lock = lock, .at_head = true};
}

void worldEnqueue(struct world *world, struct position *position, struct waitRequest *request,
                  struct worldLock lock) {
    struct waitqueue *queue = &world->locks[lock.lock].queue;
    if (lock.at_head) {
        waitqueueAddFirst(queue, position, request, lock.mode);
    } else {
        waitqueueAdd(queue, position, request, lock.mode);
    }
}

void worldHolds(struct world *world, const char *owner, enum lockMode mode, size_t lock) {
    lockHold(&world->locks[lock], owner, strlen(owner), mode);
}

static struct wait *newWait(struct world *world, struct waitRequest request) {
    assert_true(world->count < WORLD_MOST_WAITS);
    struct wait *wait = &world->waits[world->count++];
    wait->request = request;
    return wait;
}

struct wait *worldQueueRequest(struct world *world, struct waitRequest request, enum lockMode mode,
                               size_t lock) {
    struct wait *wait = newWait(world, request);
    waitqueueAdd(&world->locks[lock].queue, &wait->positions[0], &wait->request, mode);
    return wait;
}

struct wait *worldQueue(struct world *world, const char *owner, enum lockMode mode, size_t lock) {
    return worldQueueRequest(world, worldRequest(owner), mode, lock);
}

struct wait *worldQueueForBoth(struct world *world, const char *owner, struct worldLock one,
                               struct worldLock other) {
    struct wait *wait = newWait(world, worldMultikey(owner));
    worldEnqueue(world, &wait->positions[0], &wait->request, one);
    worldEnqueue(world, &wait->positions[1], &wait->request, other);
    return wait;
}

struct wait *worldWaits(struct world *world, const char *owner, enum lockMode mode, size_t lock) {
    struct wait *wait = worldQueue(world, owner, mode, lock);
    waitgraphEnter(&world->graph, &wait->request);
    return wait;
}

struct wait *worldWaitsForTwo(struct world *world, const char *owner, enum lockMode mode,
                              size_t one, size_t other) {
    return worldWaitsForBoth(world, owner, (struct worldLock){.mode = mode, .lock = one},
                             (struct worldLock){.mode = mode, .lock = other});
}

struct wait *worldWaitsForBoth(struct world *world, const char *owner, struct worldLock one,
                               struct worldLock other) {
    struct wait *wait = worldQueueForBoth(world, owner, one, other);
    waitgraphEnter(&world->graph, &wait->request);
    return wait;
}

struct wait *worldDetached(struct world *world, const char *owner, size_t lock) {
    struct waitRequest request = worldRequest(owner);
    request.discipline = FAIR;
    return worldQueueRequest(world, request, MODE_EXCLUSIVE, lock);
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
        assert_int_equal(world->locks[i].queue.candidates.length, 0);
        assert_int_equal(world->locks[i].queue.multikey, 0);
    }
}
