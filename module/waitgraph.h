/* Who waits for whom, and whether one more wait would close a circle (docs/design.md, "Circles").
 *
 * The nodes are owners. An owner that waits in a queue waits for
 *   - every other owner whose hold of that lock conflicts with what it asks for, and
 *   - every other owner that stands ahead of it there and conflicts with it.
 * A circle of waits never ends by itself, and can be closed by a new wait only: so one look when a
 * request is about to wait finds every one.
 *
 * An owner with several places in a queue stands where the first of them is. One that waits for
 * several keys waits for nobody in the queue of a key that it holds already.
 *
 * Kept here is who waits where, and which of a queue's places are *ties*: those whose owner stands
 * in another queue too. Only they lead from one queue to another, so a search never walks a queue
 * of ten thousand who wait for one lock; of those it looks at one at most, the last writer ahead of
 * a reader. Who holds a lock is not known here; the search asks.
 */
#ifndef LOCK_WAITGRAPH_H
#define LOCK_WAITGRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hashmap.h"
#include "rules.h"
#include "waitqueue.h"

/* Of requests that wait, each in all its queues. All zero is an empty graph. */
struct waitgraph {
    struct map by_owner;
    uint64_t searches; /* how many there have been */
};

/* The request stands in all its queues now. */
void waitgraphEnter(struct waitgraph *graph, struct request *request);

/* The request does not wait any more. To be called before its places leave their queues. Does
 * nothing when it is not in the graph. */
void waitgraphLeave(struct waitgraph *graph, struct request *request);

/* How many requests are in the graph. */
size_t waitgraphSize(const struct waitgraph *graph);

struct waitgraphSearch;

/* Tells the search, by waitgraphReach, which owners hold the lock of this queue in a mode that
 * conflicts with `mode`. */
typedef void (*waitgraphHolders)(struct waitgraphSearch *search, struct waitqueue *queue,
                                 enum lockMode mode, void *context);

/* One wait of a circle: `owner` waits in `queue` for the owner of the next step, who holds that
 * lock, or stands ahead. The last waits for the first. */
struct waitgraphStep {
    const char *owner; /* of the requests in the graph, or the asker's */
    size_t owner_length;
    struct waitqueue *queue;
    bool behind; /* the next one stands ahead, and no hold of it is in the way */
};

enum waitgraphResult {
    WAITGRAPH_NO_CIRCLE,
    WAITGRAPH_CIRCLE, /* `circle` tells it, the asker first */
    WAITGRAPH_GAVE_UP /* more than the given number of steps would have been needed */
};

struct waitgraphCircle {
    size_t length;
    struct waitgraphStep steps[];
};

/* Where a request that does not wait yet is going to stand. */
struct waitgraphAim {
    struct waitqueue **queues;
    size_t count;
    bool first; /* at the head, as whoever holds the lock has to: nobody stands ahead */
};

/* Whether the wait of `asker`, which stands nowhere yet, would close a circle. Looks at no more
 * than `most` owners and ties. On WAITGRAPH_CIRCLE `*circle` is the caller's, to be freed with
 * memFree. */
enum waitgraphResult waitgraphFindCircle(struct waitgraph *graph, const struct request *asker,
                                         const struct waitgraphAim *aim, size_t most,
                                         waitgraphHolders holders, void *context,
                                         struct waitgraphCircle **circle);

/* Within a waitgraphHolders: this owner is one of them. */
void waitgraphReach(struct waitgraphSearch *search, const char *owner, size_t length);

/* Likewise, and nobody else holds the lock: a plain lock. */
void waitgraphReachAlone(struct waitgraphSearch *search, const char *owner, size_t length);

/* Within a waitgraphHolders: calls `visit` for every request in the graph, and for the asker. The
 * shorter way when a lock has more holders than there are waiters. */
void waitgraphEachRequest(struct waitgraphSearch *search,
                          void (*visit)(struct waitgraphSearch *search,
                                        const struct request *request, void *context),
                          void *context);

#endif
