/* waitgraph.[ch] and waitsearch.[ch]: which wait would close a circle, how it is told, and what is
 * kept for it. */
#include "waitsearch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "support/locks.h"
#include "support/unit.h"

#define LOCKS 6
#define MOST_WAITS 128
#define NO_BOUND SIZE_MAX

struct wait {
    struct request request;
    struct place places[LOCKS];
};

struct world {
    struct waitgraph graph;
    struct fakeLock locks[LOCKS];
    struct wait waits[MOST_WAITS];
    size_t count;
};

static struct request requestOf(const char *owner, enum lockMode mode) {
    return (struct request){
        .owner = owner, .owner_length = strlen(owner), .mode = mode, .discipline = ORDERED};
}

static void holds(struct world *world, const char *owner, enum lockMode mode, size_t lock) {
    lockHold(&world->locks[lock], owner, strlen(owner), mode);
}

/* Stands at the end of the queue, and is not in the graph. */
static struct wait *standsFor(struct world *world, struct request request, size_t lock) {
    assert_true(world->count < MOST_WAITS);
    struct wait *wait = &world->waits[world->count++];
    wait->request = request;
    waitqueueAdd(&world->locks[lock].queue, &wait->places[0], &wait->request);
    return wait;
}

static struct wait *stands(struct world *world, const char *owner, enum lockMode mode,
                           size_t lock) {
    return standsFor(world, requestOf(owner, mode), lock);
}

static struct wait *waits(struct world *world, const char *owner, enum lockMode mode, size_t lock) {
    struct wait *wait = stands(world, owner, mode, lock);
    waitgraphEnter(&world->graph, &wait->request);
    return wait;
}

/* For two locks at once. */
static struct wait *waitsJointly(struct world *world, const char *owner, enum lockMode mode,
                                 size_t one, size_t other) {
    struct request request = requestOf(owner, mode);
    request.discipline = JOINT;
    struct wait *wait = standsFor(world, request, one);
    waitqueueAdd(&world->locks[other].queue, &wait->places[1], &wait->request);
    waitgraphEnter(&world->graph, &wait->request);
    return wait;
}

/* A fair request's place whose client is gone. */
static struct wait *isDetached(struct world *world, const char *owner, size_t lock) {
    struct request request = requestOf(owner, MODE_EXCLUSIVE);
    request.discipline = FAIR;
    return standsFor(world, request, lock);
}

/* Granted, cancelled, timed out: it is the same to the graph. */
static void ends(struct world *world, struct wait *wait) {
    waitgraphLeave(&world->graph, &wait->request);
    for (size_t i = 0; i < LOCKS; i++) {
        if (wait->places[i].queue) {
            waitqueueRemove(&wait->places[i]);
        }
    }
}

static void assertNoTies(const struct world *world) {
    for (size_t i = 0; i < LOCKS; i++) {
        assert_int_equal(world->locks[i].queue.ties.length, 0);
        assert_null(world->locks[i].queue.ties.first);
    }
}

static void endWorld(struct world *world) {
    for (size_t i = 0; i < world->count; i++) {
        ends(world, &world->waits[i]);
    }
    assertNoTies(world);
    assert_int_equal(waitgraphSize(&world->graph), 0);
    for (size_t i = 0; i < LOCKS; i++) {
        assert_int_equal(world->locks[i].queue.in_graph, 0);
        assert_int_equal(world->locks[i].queue.writers.length, 0);
        assert_int_equal(world->locks[i].queue.joint, 0);
    }
}

/* A request that does not wait yet. */
struct ask {
    struct request request;
    bool first;
    size_t locks[2];
    size_t count;
};

static struct ask asks(const char *owner, enum lockMode mode, size_t lock) {
    return (struct ask){.request = requestOf(owner, mode), .locks = {lock}, .count = 1};
}

/* As an upgrade does. */
static struct ask asksFirst(const char *owner, enum lockMode mode, size_t lock) {
    struct ask ask = asks(owner, mode, lock);
    ask.first = true;
    return ask;
}

static struct ask asksFairly(const char *owner, size_t lock) {
    struct ask ask = asks(owner, MODE_EXCLUSIVE, lock);
    ask.request.discipline = FAIR;
    return ask;
}

static enum waitsearchResult find(struct world *world, const struct ask *ask, size_t most,
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

static void assertAnswer(struct world *world, struct ask ask, const char *wanted) {
    static const waitsearchHolders ways[] = {lockTellHolds, lockTellRequests};
    for (size_t i = 0; i < LENGTH_OF(ways); i++) {
        struct waitsearchCircle *circle = NULL;
        char text[256] = "";
        if (find(world, &ask, NO_BOUND, ways[i], NULL, &circle) == WAITSEARCH_CIRCLE) {
            tell(world, circle, text, sizeof text);
            memFree(circle);
        } else {
            assert_null(circle);
        }
        assert_string_equal(text, wanted);
    }
}

static void assertNoCircle(struct world *world, struct ask ask) {
    assertAnswer(world, ask, "");
}

/* ---- through holders ---- */

static void without_waits_nobody_is_asked_for_holders(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "b", MODE_WRITE, 0);
    struct ask ask = asks("a", MODE_WRITE, 0);
    size_t calls = 0;
    assert_int_equal(find(&world, &ask, 0, lockTellHolds, &calls, NULL), WAITSEARCH_NO_CIRCLE);
    ask.first = true;
    assert_int_equal(find(&world, &ask, 0, lockTellHolds, &calls, NULL), WAITSEARCH_NO_CIRCLE);
    assert_int_equal(calls, 0);
    endWorld(&world);
}

static void two_owners_who_hold_what_the_other_wants(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_EXCLUSIVE, 0);
    holds(&world, "b", MODE_EXCLUSIVE, 1);
    waits(&world, "a", MODE_EXCLUSIVE, 1);
    assertAnswer(&world, asks("b", MODE_EXCLUSIVE, 0), "b 0 a, a 1 b");
    assertNoCircle(&world, asks("c", MODE_EXCLUSIVE, 0));
    assertNoCircle(&world, asks("b", MODE_EXCLUSIVE, 2));
    assertNoTies(&world);
    endWorld(&world);
}

static void a_chain_of_three(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_EXCLUSIVE, 0);
    holds(&world, "b", MODE_WRITE, 1);
    holds(&world, "c", MODE_READ, 2);
    waits(&world, "a", MODE_EXCLUSIVE, 1);
    waits(&world, "b", MODE_WRITE, 2);
    assertAnswer(&world, asks("c", MODE_EXCLUSIVE, 0), "c 0 a, a 1 b, b 2 c");
    assertNoCircle(&world, asks("d", MODE_EXCLUSIVE, 0)); /* the chain leads to c, not to d */
    endWorld(&world);
}

static void readers_are_not_in_each_others_way(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_READ, 0);
    holds(&world, "b", MODE_READ, 1);
    struct wait *reads = waits(&world, "a", MODE_READ, 1);
    assertNoCircle(&world, asks("b", MODE_WRITE, 0)); /* a, who holds 0, waits for no reader */
    ends(&world, reads);
    waits(&world, "a", MODE_WRITE, 1);
    assertNoCircle(&world, asks("b", MODE_READ, 0));
    assertAnswer(&world, asks("b", MODE_WRITE, 0), "b 0 a, a 1 b");
    endWorld(&world);
}

static void each_mode_is_looked_at_by_itself(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_READ, 0);
    holds(&world, "b", MODE_READ, 1);
    holds(&world, "c", MODE_READ, 1);
    waits(&world, "b", MODE_READ, 0); /* waits for nobody who is in the graph */
    waits(&world, "c", MODE_WRITE, 0);
    assertAnswer(&world, asks("a", MODE_WRITE, 1), "a 1 c, c 0 a");
    endWorld(&world);
}

static void an_owner_is_not_in_its_own_way(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_READ, 0);
    holds(&world, "a", MODE_EXCLUSIVE, 2);
    holds(&world, "b", MODE_READ, 0);
    waits(&world, "b", MODE_EXCLUSIVE, 1);
    assertNoCircle(&world, asksFirst("a", MODE_WRITE, 0));
    assertNoCircle(&world, asks("a", MODE_EXCLUSIVE, 2));
    endWorld(&world);
}

static void whoever_has_left_waits_for_nobody(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_EXCLUSIVE, 0);
    holds(&world, "b", MODE_EXCLUSIVE, 1);
    struct wait *wait = waits(&world, "a", MODE_EXCLUSIVE, 1);
    waits(&world, "x", MODE_EXCLUSIVE, 3); /* so that the graph is not empty */
    assertAnswer(&world, asks("b", MODE_EXCLUSIVE, 0), "b 0 a, a 1 b");
    ends(&world, wait);
    assertNoCircle(&world, asks("b", MODE_EXCLUSIVE, 0));
    assert_int_equal(waitgraphSize(&world.graph), 1);
    endWorld(&world);
}

static void a_place_without_a_client_waits_for_nobody(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_EXCLUSIVE, 0);
    holds(&world, "b", MODE_EXCLUSIVE, 1);
    struct wait *wait = waits(&world, "a", MODE_EXCLUSIVE, 1);
    waits(&world, "x", MODE_EXCLUSIVE, 3);
    waitgraphLeave(&world.graph, &wait->request);
    assertNoCircle(&world, asks("b", MODE_EXCLUSIVE, 0));
    waitgraphEnter(&world.graph, &wait->request); /* and it may come back */
    assertAnswer(&world, asks("b", MODE_EXCLUSIVE, 0), "b 0 a, a 1 b");
    endWorld(&world);
}

static void the_shortest_circle_is_told(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "b", MODE_READ, 0);
    holds(&world, "d", MODE_READ, 0);
    holds(&world, "c", MODE_EXCLUSIVE, 1);
    holds(&world, "a", MODE_EXCLUSIVE, 2);
    waits(&world, "b", MODE_EXCLUSIVE, 1); /* b -> c -> a, and d -> a */
    waits(&world, "c", MODE_EXCLUSIVE, 2);
    waits(&world, "d", MODE_EXCLUSIVE, 2);
    assertAnswer(&world, asks("a", MODE_WRITE, 0), "a 0 d, d 2 a");
    endWorld(&world);
}

static void a_circle_of_others_is_not_followed_for_ever(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "b", MODE_EXCLUSIVE, 0);
    holds(&world, "c", MODE_EXCLUSIVE, 1);
    waits(&world, "b", MODE_EXCLUSIVE, 1);
    waits(&world, "c", MODE_EXCLUSIVE, 0);
    assertNoCircle(&world, asks("a", MODE_EXCLUSIVE, 0));
    endWorld(&world);
}

/* ---- through those who stand ahead ---- */

static void a_waiter_ahead_who_waits_elsewhere_too(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_EXCLUSIVE, 1);
    struct wait *joint = waitsJointly(&world, "b", MODE_EXCLUSIVE, 0, 1);
    assertAnswer(&world, asks("a", MODE_EXCLUSIVE, 0), "a 0< b, b 1 a");
    ends(&world, joint);
    waits(&world, "b", MODE_WRITE, 0); /* the same with two requests */
    waits(&world, "b", MODE_WRITE, 1);
    assertAnswer(&world, asks("a", MODE_READ, 0), "a 0< b, b 1 a");
    endWorld(&world);
}

static void a_waiter_ahead_who_waits_here_only_leads_to_the_holders(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "h", MODE_EXCLUSIVE, 0);
    holds(&world, "a", MODE_EXCLUSIVE, 1);
    waits(&world, "b", MODE_EXCLUSIVE, 0);
    assertNoCircle(&world, asks("a", MODE_EXCLUSIVE, 0));
    waits(&world, "h", MODE_EXCLUSIVE, 1);
    assertNoTies(&world);
    assertAnswer(&world, asks("a", MODE_EXCLUSIVE, 0), "a 0 h, h 1 a");
    endWorld(&world);
}

static void a_reader_does_not_wait_behind_a_reader(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_EXCLUSIVE, 1);
    waits(&world, "b", MODE_READ, 0);
    waits(&world, "b", MODE_EXCLUSIVE, 1);
    assertNoCircle(&world, asks("a", MODE_READ, 0));
    assertAnswer(&world, asks("a", MODE_WRITE, 0), "a 0< b, b 1 a");
    endWorld(&world);
}

static void nobody_waits_for_a_place_behind(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_EXCLUSIVE, 1);
    holds(&world, "c", MODE_EXCLUSIVE, 2);
    struct wait *ahead = waits(&world, "c", MODE_EXCLUSIVE, 0);
    waitsJointly(&world, "x", MODE_EXCLUSIVE, 0, 1);
    assertNoCircle(&world, asks("a", MODE_EXCLUSIVE, 2));
    ends(&world, ahead);
    waits(&world, "c", MODE_EXCLUSIVE, 0);
    assertAnswer(&world, asks("a", MODE_EXCLUSIVE, 2), "a 2 c, c 0< x, x 1 a");
    endWorld(&world);
}

/* What a place far back has seen includes what one further ahead sees, and not the other way. */
static void two_places_in_one_queue_see_what_is_ahead_of_each(void **state) {
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        struct world world = {.count = 0};
        holds(&world, "a", MODE_EXCLUSIVE, 1);
        holds(&world, "b", MODE_READ, 2);
        holds(&world, "c", MODE_READ, 3);
        waits(&world, "b", MODE_EXCLUSIVE, 0);
        waitsJointly(&world, "x", MODE_EXCLUSIVE, 0, 1);
        waits(&world, "c", MODE_EXCLUSIVE, 0);
        struct ask ask = asks("a", MODE_WRITE, turn ? 2 : 3);
        ask.locks[ask.count++] = turn ? 3 : 2;
        assertAnswer(&world, ask, "a 3 c, c 0< x, x 1 a");
        endWorld(&world);
    }
}

static void a_request_for_several_locks_waits_for_whoever_is_in_any(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_EXCLUSIVE, 2);
    holds(&world, "b", MODE_EXCLUSIVE, 1);
    waits(&world, "b", MODE_EXCLUSIVE, 2);
    struct ask ask = asks("a", MODE_EXCLUSIVE, 0);
    ask.locks[ask.count++] = 1;
    assertAnswer(&world, ask, "a 1 b, b 2 a");
    endWorld(&world);
}

static void an_owner_waits_with_every_request_of_its_own(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_EXCLUSIVE, 3);
    holds(&world, "b", MODE_EXCLUSIVE, 0);
    waits(&world, "b", MODE_EXCLUSIVE, 1);
    waits(&world, "b", MODE_EXCLUSIVE, 2);
    struct wait *last = waits(&world, "b", MODE_EXCLUSIVE, 3);
    waits(&world, "b", MODE_EXCLUSIVE, 4);
    assertAnswer(&world, asks("a", MODE_EXCLUSIVE, 0), "a 0 b, b 3 a");
    ends(&world, last);
    assertNoCircle(&world, asks("a", MODE_EXCLUSIVE, 0));
    endWorld(&world);
}

static void a_hundred_requests_of_one_owner(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_EXCLUSIVE, 4);
    holds(&world, "b", MODE_EXCLUSIVE, 5);
    for (size_t i = 0; i < 100; i++) {
        waits(&world, "b", MODE_EXCLUSIVE, i % 4);
    }
    assert_int_equal(world.locks[0].queue.ties.length, 25);
    assertNoCircle(&world, asks("a", MODE_EXCLUSIVE, 5));
    waits(&world, "b", MODE_EXCLUSIVE, 4);
    assertAnswer(&world, asks("a", MODE_EXCLUSIVE, 5), "a 5 b, b 4 a");
    endWorld(&world);
}

/* ---- the readers whom a writer ahead waits for ---- */

static void a_reader_waits_for_the_readers_whom_a_writer_ahead_waits_for(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_READ, 0);
    holds(&world, "b", MODE_EXCLUSIVE, 1);
    struct wait *writer = waits(&world, "w", MODE_WRITE, 0);
    waits(&world, "r", MODE_READ, 0);
    struct wait *reader = waits(&world, "b", MODE_READ, 0);
    assertAnswer(&world, asks("a", MODE_EXCLUSIVE, 1), "a 1 b, b 0< w, w 0 a");
    ends(&world, writer);
    assertNoCircle(&world, asks("a", MODE_EXCLUSIVE, 1));
    waits(&world, "w", MODE_WRITE, 0); /* now behind */
    assertNoCircle(&world, asks("a", MODE_EXCLUSIVE, 1));
    ends(&world, reader);
    waits(&world, "b", MODE_READ, 0);
    waits(&world, "v", MODE_WRITE, 0);
    assertAnswer(&world, asks("a", MODE_EXCLUSIVE, 1), "a 1 b, b 0< w, w 0 a");
    endWorld(&world);
}

static void a_new_reader_waits_for_them_too(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "h", MODE_READ, 0);
    holds(&world, "a", MODE_EXCLUSIVE, 1);
    waits(&world, "h", MODE_EXCLUSIVE, 1);
    assertNoCircle(&world, asks("a", MODE_READ, 0));
    struct wait *writer = waits(&world, "w", MODE_WRITE, 0);
    assertAnswer(&world, asks("a", MODE_READ, 0), "a 0< w, w 0 h, h 1 a");
    assertNoCircle(&world, asksFirst("a", MODE_READ, 0));
    waitgraphLeave(&world.graph, &writer->request); /* a place without a client */
    assertNoCircle(&world, asks("a", MODE_READ, 0));
    endWorld(&world);
}

static void a_reader_waits_for_readers_between_two_writers_ahead(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_EXCLUSIVE, 1);
    waits(&world, "v", MODE_WRITE, 0);
    waits(&world, "r", MODE_READ, 0);
    waits(&world, "r", MODE_READ, 1);
    assertNoCircle(&world, asks("a", MODE_READ, 0));
    waits(&world, "w", MODE_WRITE, 0);
    waits(&world, "s", MODE_READ, 0);
    assertAnswer(&world, asks("a", MODE_READ, 0), "a 0< w, w 0< r, r 1 a");
    endWorld(&world);
}

/* ---- the owner's own places ---- */

static void of_several_places_of_the_asker_in_a_queue_the_first_counts(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "o", MODE_EXCLUSIVE, 1);
    struct wait *first = waits(&world, "o", MODE_EXCLUSIVE, 0);
    waitsJointly(&world, "x", MODE_EXCLUSIVE, 0, 1);
    assertNoCircle(&world, asks("o", MODE_EXCLUSIVE, 0));
    ends(&world, first);
    assertAnswer(&world, asks("o", MODE_EXCLUSIVE, 0), "o 0< x, x 1 o");
    endWorld(&world);
}

static void of_several_places_of_another_in_a_queue_the_first_counts(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_EXCLUSIVE, 1);
    holds(&world, "o", MODE_EXCLUSIVE, 2);
    struct wait *first = waits(&world, "o", MODE_EXCLUSIVE, 0);
    waitsJointly(&world, "x", MODE_EXCLUSIVE, 0, 1);
    waits(&world, "o", MODE_EXCLUSIVE, 0);
    assertNoCircle(&world, asks("a", MODE_EXCLUSIVE, 2));
    ends(&world, first);
    assertAnswer(&world, asks("a", MODE_EXCLUSIVE, 2), "a 2 o, o 0< x, x 1 a");
    endWorld(&world);
}

/* A place of the owner without a client keeps nothing for its other requests. */
static void a_first_place_without_a_client_does_not_count(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "o", MODE_EXCLUSIVE, 1);
    isDetached(&world, "o", 0);
    waitsJointly(&world, "x", MODE_EXCLUSIVE, 0, 1);
    assertAnswer(&world, asks("o", MODE_EXCLUSIVE, 0), "o 0< x, x 1 o");
    endWorld(&world);
}

static void a_fair_request_takes_its_owners_place_over(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "o", MODE_EXCLUSIVE, 1);
    isDetached(&world, "o", 0);
    waitsJointly(&world, "x", MODE_EXCLUSIVE, 0, 1);
    assertNoCircle(&world, asksFairly("o", 0));
    assertAnswer(&world, asksFairly("p", 0), "");
    endWorld(&world);
}

static void whoever_stands_behind_the_asker_already_waits_for_it(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "b", MODE_EXCLUSIVE, 1);
    waits(&world, "o", MODE_EXCLUSIVE, 0);
    struct wait *behind = waits(&world, "b", MODE_READ, 0);
    assertNoTies(&world);
    assertAnswer(&world, asks("o", MODE_EXCLUSIVE, 1), "o 1 b, b 0< o");
    assertNoTies(&world); /* the only place of the asker was one during the search */
    assertNoCircle(&world, asks("p", MODE_EXCLUSIVE, 1));
    ends(&world, behind);
    assertNoCircle(&world, asks("o", MODE_EXCLUSIVE, 1));
    endWorld(&world);
}

static void what_the_asker_waits_for_already_is_no_part_of_the_circle(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "o", MODE_EXCLUSIVE, 0);
    holds(&world, "b", MODE_EXCLUSIVE, 1);
    waits(&world, "o", MODE_EXCLUSIVE, 1); /* o and b wait for each other, by someone's edits */
    waits(&world, "b", MODE_EXCLUSIVE, 0);
    assertNoCircle(&world, asks("o", MODE_EXCLUSIVE, 2));
    endWorld(&world);
}

/* ---- new places that are not the last ---- */

static void at_the_head_nobody_stands_ahead(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "o", MODE_READ, 0);
    holds(&world, "o", MODE_EXCLUSIVE, 1);
    holds(&world, "b", MODE_READ, 0);
    waitsJointly(&world, "x", MODE_WRITE, 0, 1);
    assertNoCircle(&world, asksFirst("o", MODE_WRITE, 0));
    assertAnswer(&world, asks("o", MODE_WRITE, 0), "o 0< x, x 0 o");
    endWorld(&world);
}

static void an_upgrade_while_another_waits_for_that_hold(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "o", MODE_READ, 0);
    holds(&world, "b", MODE_READ, 0);
    holds(&world, "w", MODE_EXCLUSIVE, 1);
    waits(&world, "w", MODE_WRITE, 0);
    assertNoCircle(&world, asksFirst("o", MODE_WRITE, 0));
    waits(&world, "b", MODE_EXCLUSIVE, 1);
    assertAnswer(&world, asksFirst("o", MODE_WRITE, 0), "o 0 b, b 1 w, w 0 o");
    endWorld(&world);
}

static void two_upgrades_wait_for_each_other(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "o", MODE_READ, 0);
    holds(&world, "b", MODE_READ, 0);
    waits(&world, "b", MODE_WRITE, 0);
    assertAnswer(&world, asksFirst("o", MODE_WRITE, 0), "o 0 b, b 0 o");
    endWorld(&world);
}

static void an_upgrade_gets_before_a_reader_who_stands_behind_nobody_with_a_client(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "o", MODE_READ, 0);
    holds(&world, "c", MODE_READ, 0);
    holds(&world, "r", MODE_EXCLUSIVE, 1);
    isDetached(&world, "d", 0);
    waits(&world, "r", MODE_READ, 0);
    waits(&world, "c", MODE_EXCLUSIVE, 1);
    assertAnswer(&world, asksFirst("o", MODE_WRITE, 0), "o 0 c, c 1 r, r 0< o");
    assertNoCircle(&world, asks("p", MODE_WRITE, 0)); /* at the end nobody waits for it */
    endWorld(&world);
}

static void a_fair_request_is_back_before_a_reader(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "c", MODE_READ, 0);
    holds(&world, "r", MODE_EXCLUSIVE, 1);
    isDetached(&world, "o", 0);
    waits(&world, "r", MODE_READ, 0);
    waits(&world, "c", MODE_EXCLUSIVE, 1);
    assertAnswer(&world, asksFairly("o", 0), "o 0 c, c 1 r, r 0< o");
    assertNoCircle(&world, asksFairly("p", 0));
    assertNoCircle(&world, asks("o", MODE_EXCLUSIVE, 0)); /* goes to the end */
    endWorld(&world);
}

/* Once o reads, its write is a re-entry, and goes before the reader in between. */
static void a_request_behind_an_own_one_gets_before_those_in_between(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "h", MODE_WRITE, 0);
    holds(&world, "r", MODE_EXCLUSIVE, 1);
    waits(&world, "o", MODE_READ, 0);
    waits(&world, "r", MODE_READ, 0);
    waits(&world, "h", MODE_EXCLUSIVE, 1);
    assertAnswer(&world, asks("o", MODE_WRITE, 0), "o 0 h, h 1 r, r 0< o");
    assertNoCircle(&world, asks("o", MODE_READ, 0));
    assertNoCircle(&world, asks("p", MODE_WRITE, 0));
    waits(&world, "o", MODE_WRITE, 0); /* and once it waits: */
    assertAnswer(&world, asks("o", MODE_EXCLUSIVE, 1), "o 1 r, r 0< o");
    endWorld(&world);
}

/* ---- who is who ---- */

static void owners_are_bytes(void **state) {
    (void)state;
    struct world world = {.count = 0};
    static const char a_x[] = "a\0x", a_y[] = "a\0y";
    struct request request = requestOf(a_x, MODE_WRITE);
    request.owner_length = 3;
    struct wait *wait = standsFor(&world, request, 1);
    waitgraphEnter(&world.graph, &wait->request);
    lockHold(&world.locks[0], a_x, 3, MODE_WRITE);
    lockHold(&world.locks[1], a_y, 3, MODE_WRITE);
    struct ask ask = asks(a_y, MODE_WRITE, 0);
    assertNoCircle(&world, ask); /* "a" */
    ask.request.owner_length = 2;
    assertNoCircle(&world, ask);
    ask.request.owner_length = 3;
    struct waitsearchCircle *circle = NULL;
    assert_int_equal(find(&world, &ask, NO_BOUND, lockTellHolds, NULL, &circle), WAITSEARCH_CIRCLE);
    assert_int_equal(circle->length, 2);
    assert_int_equal(circle->steps[0].owner_length, 3);
    assert_memory_equal(circle->steps[0].owner, a_y, 3);
    assert_ptr_equal(circle->steps[0].queue, &world.locks[0].queue);
    assert_int_equal(circle->steps[1].owner_length, 3);
    assert_memory_equal(circle->steps[1].owner, a_x, 3);
    assert_ptr_equal(circle->steps[1].queue, &world.locks[1].queue);
    memFree(circle);
    endWorld(&world);
}

/* ---- how long a search is ---- */

static void with_one_hot_lock_nobody_is_asked_for_holders(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "h", MODE_WRITE, 0);
    for (size_t i = 0; i < 100; i++) {
        static char names[100][8];
        snprintf(names[i], sizeof names[i], "w%zu", i);
        waits(&world, names[i], i % 2 ? MODE_READ : MODE_WRITE, 0);
    }
    struct ask ask = asks("a", MODE_WRITE, 0);
    size_t calls = 0;
    assert_int_equal(find(&world, &ask, 0, lockTellHolds, &calls, NULL), WAITSEARCH_NO_CIRCLE);
    assert_int_equal(calls, 0);
    endWorld(&world);
}

static void holders_are_asked_for_once_for_each_queue_and_mode(void **state) {
    (void)state;
    struct world world = {.count = 0};
    static const char *const readers[] = {"b", "c", "d", "e"};
    for (size_t i = 0; i < LENGTH_OF(readers); i++) {
        holds(&world, readers[i], MODE_READ, 0);
        waits(&world, readers[i], i % 2 ? MODE_READ : MODE_WRITE, 1);
    }
    struct ask ask = asks("a", MODE_WRITE, 0);
    size_t calls = 0;
    assert_int_equal(find(&world, &ask, NO_BOUND, lockTellHolds, &calls, NULL),
                     WAITSEARCH_NO_CIRCLE);
    assert_int_equal(calls, 1 + 2);
    endWorld(&world);
}

static void a_long_queue_is_not_walked(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "h", MODE_WRITE, 0);
    holds(&world, "a", MODE_WRITE, 1);
    waits(&world, "h", MODE_WRITE, 1);
    for (size_t i = 0; i < 100; i++) {
        waits(&world, i % 2 ? "odd" : "even", MODE_WRITE, 2);
    }
    struct ask ask = asks("b", MODE_WRITE, 0);
    assert_int_equal(find(&world, &ask, 2, lockTellHolds, NULL, NULL), WAITSEARCH_NO_CIRCLE);
    endWorld(&world);
}

static void assertStepsNeeded(struct world *world, struct ask ask, size_t needed,
                              enum waitsearchResult wanted) {
    for (size_t most = 0; most < needed + 3; most++) {
        struct waitsearchCircle *circle = NULL;
        enum waitsearchResult result = find(world, &ask, most, lockTellHolds, NULL, &circle);
        assert_int_equal(result, most < needed ? WAITSEARCH_GAVE_UP : wanted);
        if (result == WAITSEARCH_CIRCLE) {
            memFree(circle);
        } else {
            assert_null(circle);
        }
        assert_int_equal(world->locks[5].queue.ties.length, 0);
    }
}

static void a_search_gives_up_past_the_bound_and_not_at_it(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "b", MODE_EXCLUSIVE, 0);
    holds(&world, "c", MODE_EXCLUSIVE, 1);
    holds(&world, "a", MODE_EXCLUSIVE, 2);
    waits(&world, "a", MODE_EXCLUSIVE, 5); /* a tie for the time of the search */
    waits(&world, "b", MODE_EXCLUSIVE, 1);
    assertStepsNeeded(&world, asks("a", MODE_EXCLUSIVE, 0), 2, WAITSEARCH_NO_CIRCLE);
    waits(&world, "c", MODE_EXCLUSIVE, 2);
    assertStepsNeeded(&world, asks("a", MODE_EXCLUSIVE, 0), 3, WAITSEARCH_CIRCLE);
    endWorld(&world);
}

/* A tie is a step whether it is in the way or not, and so is a writer. */
static void ties_and_writers_are_steps(void **state) {
    (void)state;
    struct world world = {.count = 0};
    waitsJointly(&world, "r", MODE_READ, 0, 1);
    waitsJointly(&world, "s", MODE_READ, 0, 1);
    assertStepsNeeded(&world, asks("a", MODE_READ, 0), 2, WAITSEARCH_NO_CIRCLE);
    isDetached(&world, "d", 0);
    isDetached(&world, "e", 0);
    assertStepsNeeded(&world, asks("a", MODE_READ, 0), 4, WAITSEARCH_NO_CIRCLE);
    endWorld(&world);
}

static void at_the_head_no_step_is_taken_for_those_behind(void **state) {
    (void)state;
    struct world world = {.count = 0};
    waitsJointly(&world, "w", MODE_WRITE, 0, 1);
    assertStepsNeeded(&world, asksFirst("a", MODE_WRITE, 0), 0, WAITSEARCH_NO_CIRCLE);
    endWorld(&world);
}

static void what_is_told_after_the_circle_is_found_changes_nothing(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "b", MODE_EXCLUSIVE, 0);
    holds(&world, "a", MODE_READ, 1);
    holds(&world, "c", MODE_READ, 1);
    waits(&world, "b", MODE_WRITE, 1);
    waits(&world, "c", MODE_WRITE, 2);
    assertStepsNeeded(&world, asks("a", MODE_EXCLUSIVE, 0), 2, WAITSEARCH_CIRCLE);
    assertAnswer(&world, asks("a", MODE_EXCLUSIVE, 0), "a 0 b, b 1 a");
    endWorld(&world);
}

/* A tie at which the circle would close as well: the asker holds the lock, and that is told. */
static void a_hold_is_told_rather_than_a_place_ahead(void **state) {
    (void)state;
    struct world world = {.count = 0};
    holds(&world, "a", MODE_EXCLUSIVE, 0);
    holds(&world, "b", MODE_EXCLUSIVE, 1);
    waitsJointly(&world, "x", MODE_EXCLUSIVE, 0, 2);
    waits(&world, "b", MODE_EXCLUSIVE, 0);
    assertAnswer(&world, asks("a", MODE_EXCLUSIVE, 1), "a 1 b, b 0 a");
    endWorld(&world);
}

#define LONG 10000

/* Of LONG owners each holds a lock and waits for the next one's. */
struct chain {
    struct waitgraph graph;
    struct fakeLock locks[LONG];
    struct request requests[LONG];
    struct place places[LONG];
    char names[LONG][8];
};

static struct chain *newChain(void) {
    struct chain *chain = calloc(1, sizeof *chain);
    assert_non_null(chain);
    for (size_t i = 0; i < LONG; i++) {
        snprintf(chain->names[i], sizeof chain->names[i], "%zu", i);
        chain->requests[i] = requestOf(chain->names[i], MODE_EXCLUSIVE);
        lockHold(&chain->locks[i], chain->names[i], strlen(chain->names[i]), MODE_EXCLUSIVE);
    }
    for (size_t i = 0; i < LONG - 1; i++) {
        waitqueueAdd(&chain->locks[i + 1].queue, &chain->places[i], &chain->requests[i]);
        waitgraphEnter(&chain->graph, &chain->requests[i]);
    }
    return chain;
}

static void freeChain(struct chain *chain) {
    for (size_t i = 0; i < LONG - 1; i++) {
        waitgraphLeave(&chain->graph, &chain->requests[i]);
        waitqueueRemove(&chain->places[i]);
    }
    free(chain);
}

static void assertIsWholeChain(const struct chain *chain, const struct waitsearchCircle *circle) {
    assert_int_equal(circle->length, LONG);
    for (size_t i = 0; i < LONG; i++) {
        const char *name = chain->names[(i + LONG - 1) % LONG];
        assert_int_equal(circle->steps[i].owner_length, strlen(name));
        assert_memory_equal(circle->steps[i].owner, name, strlen(name));
        assert_ptr_equal(circle->steps[i].queue, &chain->locks[i].queue);
        assert_false(circle->steps[i].behind);
    }
}

static void a_chain_of_ten_thousand_waits(void **state) {
    (void)state;
    struct chain *chain = newChain();
    struct waitqueue *first = &chain->locks[0].queue;
    const struct waitsearchAim aim = {&first, 1, false};
    const struct request stranger = requestOf("stranger", MODE_EXCLUSIVE);
    struct waitsearchCircle *circle = NULL;
    assert_int_equal(
        waitsearchFind(&chain->graph, &stranger, &aim, LONG, lockTellHolds, NULL, &circle),
        WAITSEARCH_NO_CIRCLE);
    const struct request *last = &chain->requests[LONG - 1];
    assert_int_equal(
        waitsearchFind(&chain->graph, last, &aim, LONG - 1, lockTellHolds, NULL, &circle),
        WAITSEARCH_GAVE_UP);
    assert_int_equal(waitsearchFind(&chain->graph, last, &aim, LONG, lockTellHolds, NULL, &circle),
                     WAITSEARCH_CIRCLE);
    assertIsWholeChain(chain, circle);
    memFree(circle);
    freeChain(chain);
}

/* ---- what is kept ---- */

static void leaving_without_having_entered_does_nothing(void **state) {
    (void)state;
    struct world world = {.count = 0};
    struct wait *wait = isDetached(&world, "d", 0);
    waits(&world, "d", MODE_WRITE, 0);
    waitgraphLeave(&world.graph, &wait->request);
    assert_int_equal(waitgraphSize(&world.graph), 1);
    assert_int_equal(world.locks[0].queue.in_graph, 1);
    endWorld(&world);
}

#define OWN 4 /* requests of one owner: two at one lock, one elsewhere, one at two locks */

static void standAll(struct world *world) {
    static const size_t locks[OWN] = {0, 0, 1, 1};
    for (size_t i = 0; i < OWN; i++) {
        stands(world, "o", MODE_WRITE, locks[i]);
    }
    waitqueueAdd(&world->locks[2].queue, &world->waits[3].places[1], &world->waits[3].request);
    waits(world, "other", MODE_WRITE, 0); /* is never a tie */
}

/* The places of the requests that are in are ties, unless there is only one. */
static void assertTies(const struct world *world, const bool *is_in) {
    size_t own = is_in[0] + is_in[1] + is_in[2] + 2 * (size_t)is_in[3];
    for (size_t i = 0; i < OWN; i++) {
        assert_int_equal(world->waits[i].places[0].is_tie, is_in[i] && own > 1);
    }
    const size_t at[] = {is_in[0] + (size_t)is_in[1], is_in[2] + (size_t)is_in[3], is_in[3]};
    for (size_t i = 0; i < LENGTH_OF(at); i++) {
        assert_int_equal(world->locks[i].queue.in_graph, at[i] + (i == 0));
        assert_int_equal(world->locks[i].queue.ties.length, own > 1 ? at[i] : 0);
    }
}

/* The orders of OWN things are numbered; this is thing number `at` in one of them. */
static size_t inOrder(size_t order, size_t at) {
    size_t left[OWN] = {0, 1, 2, 3}, count = OWN, chosen = 0;
    for (size_t i = 0; i <= at; i++) {
        size_t which = order % count;
        order /= count;
        chosen = left[which];
        count--;
        for (size_t j = which; j < count; j++) {
            left[j] = left[j + 1];
        }
    }
    return chosen;
}

static void ties_are_right_whoever_comes_and_goes_first(void **state) {
    (void)state;
    for (size_t orders = 0; orders < (size_t)24 * 24; orders++) {
        struct world world = {.count = 0};
        bool is_in[OWN] = {false};
        standAll(&world);
        for (size_t i = 0; i < 2 * OWN; i++) {
            size_t which = inOrder(i < OWN ? orders % 24 : orders / 24, i % OWN);
            if (i < OWN) {
                waitgraphEnter(&world.graph, &world.waits[which].request);
            } else {
                waitgraphLeave(&world.graph, &world.waits[which].request);
            }
            is_in[which] = i < OWN;
            assertTies(&world, is_in);
        }
        assert_int_equal(waitgraphSize(&world.graph), 1);
        endWorld(&world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(without_waits_nobody_is_asked_for_holders),
        UNIT(two_owners_who_hold_what_the_other_wants),
        UNIT(a_chain_of_three),
        UNIT(readers_are_not_in_each_others_way),
        UNIT(each_mode_is_looked_at_by_itself),
        UNIT(an_owner_is_not_in_its_own_way),
        UNIT(whoever_has_left_waits_for_nobody),
        UNIT(a_place_without_a_client_waits_for_nobody),
        UNIT(the_shortest_circle_is_told),
        UNIT(a_circle_of_others_is_not_followed_for_ever),
        UNIT(a_waiter_ahead_who_waits_elsewhere_too),
        UNIT(a_waiter_ahead_who_waits_here_only_leads_to_the_holders),
        UNIT(a_reader_does_not_wait_behind_a_reader),
        UNIT(nobody_waits_for_a_place_behind),
        UNIT(two_places_in_one_queue_see_what_is_ahead_of_each),
        UNIT(a_request_for_several_locks_waits_for_whoever_is_in_any),
        UNIT(an_owner_waits_with_every_request_of_its_own),
        UNIT(a_hundred_requests_of_one_owner),
        UNIT(a_reader_waits_for_the_readers_whom_a_writer_ahead_waits_for),
        UNIT(a_new_reader_waits_for_them_too),
        UNIT(a_reader_waits_for_readers_between_two_writers_ahead),
        UNIT(of_several_places_of_the_asker_in_a_queue_the_first_counts),
        UNIT(of_several_places_of_another_in_a_queue_the_first_counts),
        UNIT(a_first_place_without_a_client_does_not_count),
        UNIT(a_fair_request_takes_its_owners_place_over),
        UNIT(whoever_stands_behind_the_asker_already_waits_for_it),
        UNIT(what_the_asker_waits_for_already_is_no_part_of_the_circle),
        UNIT(at_the_head_nobody_stands_ahead),
        UNIT(an_upgrade_while_another_waits_for_that_hold),
        UNIT(two_upgrades_wait_for_each_other),
        UNIT(an_upgrade_gets_before_a_reader_who_stands_behind_nobody_with_a_client),
        UNIT(a_fair_request_is_back_before_a_reader),
        UNIT(a_request_behind_an_own_one_gets_before_those_in_between),
        UNIT(owners_are_bytes),
        UNIT(with_one_hot_lock_nobody_is_asked_for_holders),
        UNIT(holders_are_asked_for_once_for_each_queue_and_mode),
        UNIT(a_long_queue_is_not_walked),
        UNIT(a_search_gives_up_past_the_bound_and_not_at_it),
        UNIT(ties_and_writers_are_steps),
        UNIT(at_the_head_no_step_is_taken_for_those_behind),
        UNIT(what_is_told_after_the_circle_is_found_changes_nothing),
        UNIT(a_hold_is_told_rather_than_a_place_ahead),
        UNIT(a_chain_of_ten_thousand_waits),
        UNIT(leaving_without_having_entered_does_nothing),
        UNIT(ties_are_right_whoever_comes_and_goes_first),
    };
    return cmocka_run_group_tests_name("waitsearch", tests, NULL, NULL);
}
