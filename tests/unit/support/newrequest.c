/* See newrequest.h. */
#include "newrequest.h"

#include <stdio.h>

#include "core/mem.h"
#include "unit.h"

struct newRequest newrequestOf(const char *owner, enum lockMode mode, size_t lock) {
    return (struct newRequest){
        .request = worldRequest(owner), .locks = {{.mode = mode, .lock = lock}}, .count = 1};
}

struct newRequest newrequestFirst(const char *owner, enum lockMode mode, size_t lock) {
    struct newRequest new_request = newrequestOf(owner, mode, lock);
    new_request.locks[0].at_head = true;
    return new_request;
}

struct newRequest newrequestFair(const char *owner, size_t lock) {
    struct newRequest new_request = newrequestOf(owner, MODE_EXCLUSIVE, lock);
    new_request.request.discipline = FAIR;
    return new_request;
}

struct newRequest newrequestForBoth(const char *owner, struct worldLock one,
                                    struct worldLock other) {
    return (struct newRequest){.request = worldMultikey(owner), .locks = {one, other}, .count = 2};
}

/* The position of its owner that a fair request takes over, or NULL. */
static struct position *positionToTakeOver(struct world *world,
                                           const struct newRequest *new_request) {
    struct position *position =
        waitqueueOfOwner(&world->locks[new_request->locks[0].lock].queue,
                         new_request->request.owner, new_request->request.owner_length);
    bool takes_over = position && new_request->request.discipline == FAIR &&
                      position->request->discipline == FAIR && !waitgraphHas(position->request);
    return takes_over ? position : NULL;
}

static void enqueue(struct world *world, const struct newRequest *new_request,
                    struct waitRequest *request, struct position *positions) {
    for (size_t i = 0; i < new_request->count; i++) {
        worldEnqueue(world, &positions[i], request, new_request->locks[i]);
    }
}

static void leave(struct world *world, const struct newRequest *new_request,
                  struct waitRequest *request, struct position *positions) {
    waitgraphLeave(&world->graph, request);
    for (size_t i = 0; i < new_request->count; i++) {
        waitqueueRemove(&positions[i]);
    }
}

enum cyclesearchResult newrequestSearch(struct world *world, const struct newRequest *new_request,
                                        size_t *steps, int way, size_t *calls,
                                        struct cyclepathCycle **cycle) {
    struct waitRequest newcomer = new_request->request, *of_old = NULL;
    struct position positions[2] = {0}, *old = positionToTakeOver(world, new_request);
    if (old) {
        of_old = old->request;
        waitqueueTakeOver(old, &positions[0], &newcomer);
    } else {
        enqueue(world, new_request, &newcomer, positions);
    }
    waitgraphAnnounce(&world->graph, &newcomer);
    struct lockSearch how = {.way = way, .most = *steps};
    how.calls = calls;
    struct cyclesearchFound found = lockSearch(&world->graph, &newcomer, &how);
    *steps = found.steps;
    if (cycle) {
        *cycle = found.cycle;
    }
    if (old) {
        waitgraphLeave(&world->graph, &newcomer);
        waitqueueTakeOver(&positions[0], old, of_old);
    } else {
        leave(world, new_request, &newcomer, positions);
    }
    return found.result;
}

/* Writes a cycle as newrequest.h describes. */
static void formatCycle(const struct world *world, const struct cyclepathCycle *cycle, char *text,
                        size_t size) {
    size_t at = 0;
    for (size_t i = 0; i < cycle->length && at < size; i++) {
        const struct cyclepathStep *step = &cycle->steps[i];
        const struct cyclepathStep *next = &cycle->steps[(i + 1) % cycle->length];
        size_t lock = (size_t)(lockOfQueue(step->queue) - world->locks);
        at += (size_t)snprintf(text + at, size - at, "%s%.*s %zu%s %.*s", i ? ", " : "",
                               (int)step->owner_length, step->owner, lock, step->behind ? "<" : "",
                               (int)next->owner_length, next->owner);
    }
}

static void assertCycleText(const struct world *world, struct cyclepathCycle *cycle,
                            const char *wanted) {
    char text[256] = "";
    if (cycle) {
        formatCycle(world, cycle, text, sizeof text);
        memFree(cycle);
    }
    assert_string_equal(text, wanted);
}

void newrequestAssertCycle(struct world *world, struct newRequest new_request, const char *wanted) {
    for (int way = 0; way < LOCKS_WAYS; way++) {
        struct cyclepathCycle *cycle = NULL;
        size_t steps = NEWREQUEST_NO_LIMIT;
        bool found =
            newrequestSearch(world, &new_request, &steps, way, NULL, &cycle) == CYCLESEARCH_CYCLE;
        assert_int_equal(found, cycle != NULL);
        assertCycleText(world, cycle, wanted);
    }
}

void newrequestAssertCycleOf(struct world *world, const struct wait *newcomer, const char *wanted) {
    for (int way = 0; way < LOCKS_WAYS; way++) {
        const struct lockSearch how = {.way = way, .most = NEWREQUEST_NO_LIMIT, .slice = 1};
        struct cyclesearchFound found = lockSearch(&world->graph, &newcomer->request, &how);
        assertCycleText(world, found.cycle, wanted);
    }
}

void newrequestAssertNoCycle(struct world *world, struct newRequest new_request) {
    newrequestAssertCycle(world, new_request, "");
}
