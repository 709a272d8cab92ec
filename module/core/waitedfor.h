/* Whether anybody waits for the owner of a newcomer whom that waits for: without such a one it
 * closes no cycle.
 *
 * Whoever has come to wait last stands behind everybody as a rule, and holds no lock that others
 * want, or only few wait for it, and nobody for those. To find that out is to ask a few times for
 * each lock that somebody waits for, however many they are who wait there and for whatever reason.
 *
 * So this goes the other way round than waitsearch.c, from the newcomer to whoever waits for it, and
 * for those; and it knows only "nobody" from "maybe somebody".
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

struct waitedfor {
    const struct waitgraph *graph;
    const struct request *newcomer;
    struct waitedforHolders holders;
    size_t next, count, looks;
    const struct request
        *owners[WAITEDFOR_MOST_OWNERS]; /* one request of each; first the newcomer */
    enum waitedforAnswer answer;
};

void waitedforBegin(struct waitedfor *asked, const struct waitgraph *graph,
                    const struct request *newcomer, struct waitedforHolders holders);

/* About how many locks the next waitedforGoOn asks. */
size_t waitedforCost(const struct waitedfor *asked);

/* Asks who waits for one more owner, and sets `answer`, which must have been WAITEDFOR_GOES_ON. */
void waitedforGoOn(struct waitedfor *asked);

#endif
