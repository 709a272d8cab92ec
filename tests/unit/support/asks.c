/* See asks.h. */
#include "asks.h"

#include <stdio.h>

#include "core/mem.h"
#include "unit.h"

struct ask asks(const char *owner, enum lockMode mode, size_t lock) {
    return (struct ask){.request = worldRequest(owner, mode), .locks = {lock}, .count = 1};
}

struct ask asksFirst(const char *owner, enum lockMode mode, size_t lock) {
    struct ask ask = asks(owner, mode, lock);
    ask.first = true;
    return ask;
}

struct ask asksFairly(const char *owner, size_t lock) {
    struct ask ask = asks(owner, MODE_EXCLUSIVE, lock);
    ask.request.discipline = FAIR;
    return ask;
}

/* Where a fair request is to stand that comes back to its owner's position, or NULL. */
static struct position *positionToTakeOver(struct world *world, const struct ask *ask) {
    struct position *position = waitqueueOfOwner(&world->locks[ask->locks[0]].queue,
                                                 ask->request.owner, ask->request.owner_length);
    bool takes_over = position && ask->request.discipline == FAIR &&
                      position->request->discipline == FAIR && !waitgraphHas(position->request);
    return takes_over ? position : NULL;
}

static void stand(struct world *world, const struct ask *ask, struct waitRequest *request,
                  struct position *positions) {
    for (size_t i = 0; i < ask->count; i++) {
        struct waitqueue *queue = &world->locks[ask->locks[i]].queue;
        if (ask->first) {
            waitqueueAddFirst(queue, &positions[i], request);
        } else {
            waitqueueAdd(queue, &positions[i], request);
        }
    }
}

static void leave(struct world *world, const struct ask *ask, struct waitRequest *request,
                  struct position *positions) {
    waitgraphLeave(&world->graph, request);
    for (size_t i = 0; i < ask->count; i++) {
        waitqueueRemove(&positions[i]);
    }
}

enum cyclesearchResult asksFind(struct world *world, const struct ask *ask, size_t *steps, int way,
                                size_t *calls, struct cyclepathCycle **cycle) {
    struct waitRequest newcomer = ask->request, *of_old = NULL;
    struct position positions[2] = {0}, *old = positionToTakeOver(world, ask);
    if (old) {
        of_old = old->request;
        waitqueueTakeOver(old, &positions[0], &newcomer);
    } else {
        stand(world, ask, &newcomer, positions);
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
        leave(world, ask, &newcomer, positions);
    }
    return found.result;
}

/* "a 0 b, b 1< a": a waits for lock 0 held by b, and b for lock 1 behind a. */
static void tell(const struct world *world, const struct cyclepathCycle *cycle, char *text,
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

static void assertTells(const struct world *world, struct cyclepathCycle *cycle,
                        const char *wanted) {
    char text[256] = "";
    if (cycle) {
        tell(world, cycle, text, sizeof text);
        memFree(cycle);
    }
    assert_string_equal(text, wanted);
}

void asksAssertAnswer(struct world *world, struct ask ask, const char *wanted) {
    for (int way = 0; way < LOCKS_WAYS; way++) {
        struct cyclepathCycle *cycle = NULL;
        size_t steps = ASKS_NO_BOUND;
        bool found = asksFind(world, &ask, &steps, way, NULL, &cycle) == CYCLESEARCH_CYCLE;
        assert_int_equal(found, cycle != NULL);
        assertTells(world, cycle, wanted);
    }
}

void asksAssertAnswerOf(struct world *world, const struct wait *newcomer, const char *wanted) {
    for (int way = 0; way < LOCKS_WAYS; way++) {
        const struct lockSearch how = {.way = way, .most = ASKS_NO_BOUND, .slice = 1};
        struct cyclesearchFound found = lockSearch(&world->graph, &newcomer->request, &how);
        assertTells(world, found.cycle, wanted);
    }
}

void asksAssertNoCycle(struct world *world, struct ask ask) {
    asksAssertAnswer(world, ask, "");
}
