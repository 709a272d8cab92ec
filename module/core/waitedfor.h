/* Whether anybody waits for the owner of a newcomer whom that waits for: without such a one it
 * closes no cycle.
 *
 * Whoever has come to wait last stands behind everybody as a rule, and holds no lock that others
 * want, or only few wait for it, and nobody for those. To find that out is to ask a few times for
 * each lock that somebody waits for, however many they are who wait there and for whatever reason.
 *
 * So this goes the other way round than waitsearch.c, from the newcomer to whoever waits for it, and
 * for those; and it knows only "nobody" from "maybe somebody".
 *
 * It works in steps, between which requests may leave the graph.
 */
#ifndef LOCK_WAITEDFOR_H
#define LOCK_WAITEDFOR_H

#include <stdbool.h>
#include <stddef.h>

#include "core/rules.h"
#include "core/waitgraph.h"
#include "core/waitqueue.h"

/* Whether the owner of this request holds the lock of this queue in a mode that conflicts with
 * `mode`. */
typedef bool (*waitedforIsHolder)(struct waitqueue *queue, enum lockMode mode,
                                  const struct request *request, void *context);

/* Of more owners it is not asked who waits for them: maybe somebody. */
#define WAITEDFOR_MOST_OWNERS 32

enum waitedforAnswer {
    WAITEDFOR_GOES_ON,
    WAITEDFOR_NOBODY, /* no cycle */
    WAITEDFOR_MAYBE
};

/* Whom to ask who holds what. */
struct waitedforHolders {
    waitedforIsHolder is_holder;
    void *context;
};

/* What is asked next about an owner. */
enum waitedforStage {
    WAITEDFOR_NEXT_OWNER,
    WAITEDFOR_NEWCOMER,  /* whether the newcomer waits for it: each of the newcomer's positions */
    WAITEDFOR_POSITIONS, /* who stands behind its positions */
    WAITEDFOR_HOLDS      /* whether it holds a lock that others wait for: each of those locks */
};

struct waitedfor {
    struct waitgraph *graph;
    const struct request *newcomer;
    struct waitedforHolders holders;
    enum waitedforStage stage;
    struct position *position; /* of the newcomer, in WAITEDFOR_NEWCOMER */
    size_t next, count, looks;
    const struct request
        *owners[WAITEDFOR_MOST_OWNERS]; /* one request of each; first the newcomer */
    enum waitedforAnswer answer;
};

void waitedforBegin(struct waitedfor *asked, struct waitgraph *graph,
                    const struct request *newcomer, struct waitedforHolders holders);

/* About how many locks have to be asked for the next owner. In the middle of one: 0. */
size_t waitedforCost(const struct waitedfor *asked);

/* Whether it is in the middle of an owner. */
bool waitedforIsAsking(const struct waitedfor *asked);

/* Takes one step: asks one lock, as a rule. Sets `answer`, which must have been
 * WAITEDFOR_GOES_ON. */
void waitedforGoOn(struct waitedfor *asked);

/* This request, which is in the graph, is about to leave it. */
void waitedforLeave(struct waitedfor *asked, const struct request *request);

#endif
