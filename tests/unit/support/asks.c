/* See asks.h. */
#include "asks.h"

#include <stdio.h>

#include "mem.h"
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

enum waitsearchResult asksFind(struct world *world, const struct ask *ask, size_t most,
                               waitsearchHolders holders, size_t *calls,
                               struct waitsearchCircle **circle) {
    struct waitqueue *queues[2] = {&world->locks[ask->locks[0]].queue,
                                   &world->locks[ask->locks[1]].queue};
    const struct waitsearchAim aim = {queues, ask->count, ask->first};
    return waitsearchFind(&world->graph, &ask->request, &aim, most, holders, calls, circle);
}

/* "a 0 b, b 1< a": a waits for lock 0 held by b, and b for lock 1 behind a. */
static void tell(const struct world *world, const struct waitsearchCircle *circle, char *text,
                 size_t size) {
    size_t at = 0;
    for (size_t i = 0; i < circle->length && at < size; i++) {
        const struct waitsearchStep *step = &circle->steps[i];
        const struct waitsearchStep *next = &circle->steps[(i + 1) % circle->length];
        size_t lock = (size_t)(lockOfQueue(step->queue) - world->locks);
        at += (size_t)snprintf(text + at, size - at, "%s%.*s %zu%s %.*s", i ? ", " : "",
                               (int)step->owner_length, step->owner, lock, step->behind ? "<" : "",
                               (int)next->owner_length, next->owner);
    }
}

static const waitsearchHolders ways[] = {lockTellHolds, lockTellRequests};

static void assertTells(const struct world *world, struct waitsearchCircle *circle,
                        const char *wanted) {
    char text[256] = "";
    if (circle) {
        tell(world, circle, text, sizeof text);
        memFree(circle);
    }
    assert_string_equal(text, wanted);
}

void asksAssertAnswer(struct world *world, struct ask ask, const char *wanted) {
    for (size_t i = 0; i < LENGTH_OF(ways); i++) {
        struct waitsearchCircle *circle = NULL;
        bool found =
            asksFind(world, &ask, ASKS_NO_BOUND, ways[i], NULL, &circle) == WAITSEARCH_CIRCLE;
        assert_int_equal(found, circle != NULL);
        assertTells(world, circle, wanted);
    }
}

void asksAssertAnswerOf(struct world *world, const struct wait *newcomer, const char *wanted) {
    for (size_t i = 0; i < LENGTH_OF(ways); i++) {
        struct waitsearchCircle *circle = NULL;
        waitsearchFind(&world->graph, &newcomer->request, NULL, ASKS_NO_BOUND, ways[i], NULL,
                       &circle);
        assertTells(world, circle, wanted);
    }
}

void asksAssertNoCircle(struct world *world, struct ask ask) {
    asksAssertAnswer(world, ask, "");
}
