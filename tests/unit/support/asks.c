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

/* Where a fair request is to stand that comes back to its owner's place, or NULL. */
static struct place *placeToTakeOver(struct world *world, const struct ask *ask) {
    struct place *place = waitqueueOfOwner(&world->locks[ask->locks[0]].queue, ask->request.owner,
                                           ask->request.owner_length);
    bool takes_over = place && ask->request.discipline == FAIR &&
                      place->request->discipline == FAIR && !waitgraphHas(place->request);
    return takes_over ? place : NULL;
}

static void stand(struct world *world, const struct ask *ask, struct request *request,
                  struct place *places) {
    for (size_t i = 0; i < ask->count; i++) {
        struct waitqueue *queue = &world->locks[ask->locks[i]].queue;
        if (ask->first) {
            waitqueueAddFirst(queue, &places[i], request);
        } else {
            waitqueueAdd(queue, &places[i], request);
        }
    }
}

static void leave(struct world *world, const struct ask *ask, struct request *request,
                  struct place *places) {
    waitgraphLeave(&world->graph, request);
    for (size_t i = 0; i < ask->count; i++) {
        waitqueueRemove(&places[i]);
    }
}

enum waitsearchResult asksFind(struct world *world, const struct ask *ask, size_t *steps, int way,
                               size_t *calls, struct waitpathCircle **circle) {
    struct request newcomer = ask->request, *of_old = NULL;
    struct place places[2] = {0}, *old = placeToTakeOver(world, ask);
    if (old) {
        of_old = old->request;
        waitqueueTakeOver(old, &places[0], &newcomer);
    } else {
        stand(world, ask, &newcomer, places);
    }
    waitgraphAnnounce(&world->graph, &newcomer);
    const struct waitsearchAsked asked = lockAsked(way, calls);
    enum waitsearchResult result = waitsearchFind(&world->graph, &newcomer, &asked, steps, circle);
    if (old) {
        waitgraphLeave(&world->graph, &newcomer);
        waitqueueTakeOver(&places[0], old, of_old);
    } else {
        leave(world, ask, &newcomer, places);
    }
    return result;
}

/* "a 0 b, b 1< a": a waits for lock 0 held by b, and b for lock 1 behind a. */
static void tell(const struct world *world, const struct waitpathCircle *circle, char *text,
                 size_t size) {
    size_t at = 0;
    for (size_t i = 0; i < circle->length && at < size; i++) {
        const struct waitpathStep *step = &circle->steps[i];
        const struct waitpathStep *next = &circle->steps[(i + 1) % circle->length];
        size_t lock = (size_t)(lockOfQueue(step->queue) - world->locks);
        at += (size_t)snprintf(text + at, size - at, "%s%.*s %zu%s %.*s", i ? ", " : "",
                               (int)step->owner_length, step->owner, lock, step->behind ? "<" : "",
                               (int)next->owner_length, next->owner);
    }
}

static void assertTells(const struct world *world, struct waitpathCircle *circle,
                        const char *wanted) {
    char text[256] = "";
    if (circle) {
        tell(world, circle, text, sizeof text);
        memFree(circle);
    }
    assert_string_equal(text, wanted);
}

void asksAssertAnswer(struct world *world, struct ask ask, const char *wanted) {
    for (int way = 0; way < LOCKS_WAYS; way++) {
        struct waitpathCircle *circle = NULL;
        size_t steps = ASKS_NO_BOUND;
        bool found = asksFind(world, &ask, &steps, way, NULL, &circle) == WAITSEARCH_CIRCLE;
        assert_int_equal(found, circle != NULL);
        assertTells(world, circle, wanted);
    }
}

void asksAssertAnswerOf(struct world *world, const struct wait *newcomer, const char *wanted) {
    for (int way = 0; way < LOCKS_WAYS; way++) {
        const struct waitsearchAsked asked = lockAsked(way, NULL);
        struct waitpathCircle *circle = NULL;
        size_t steps = ASKS_NO_BOUND;
        waitsearchFind(&world->graph, &newcomer->request, &asked, &steps, &circle);
        assertTells(world, circle, wanted);
    }
}

void asksAssertNoCircle(struct world *world, struct ask ask) {
    asksAssertAnswer(world, ask, "");
}
