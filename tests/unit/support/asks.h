/* Requests that would wait in the world of world.h, and what a search says of them. */
#ifndef LOCK_TESTS_ASKS_H
#define LOCK_TESTS_ASKS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/cyclesearch.h"
#include "world.h"

#define ASKS_NO_BOUND SIZE_MAX

/* A request that is to wait. */
struct ask {
    struct waitRequest request;
    bool first;
    size_t locks[2];
    size_t count;
};

struct ask asks(const char *owner, enum lockMode mode, size_t lock);

/* As an upgrade does. */
struct ask asksFirst(const char *owner, enum lockMode mode, size_t lock);

struct ask asksFairly(const char *owner, size_t lock);

/* A whole search, with the request as a newcomer, which is gone again afterwards. `way` is one of
 * locks.h. */
enum cyclesearchResult asksFind(struct world *world, const struct ask *ask, size_t *steps, int way,
                                size_t *calls, struct cyclepathCycle **cycle);

/* The cycle that the wait would close is this one, whichever way is asked.
 * "a 0 b, b 1< a": a waits for lock 0 held by b, and b for lock 1 behind a. */
void asksAssertAnswer(struct world *world, struct ask ask, const char *wanted);

void asksAssertNoCycle(struct world *world, struct ask ask);

/* Likewise of a wait that stands already, and is not in the graph. */
void asksAssertAnswerOf(struct world *world, const struct wait *newcomer, const char *wanted);

#endif
