/* Whether one more wait would close a circle (docs/design.md, "Circles").
 *
 * The nodes are owners. An owner that waits in a queue waits for
 *   - every other owner whose hold of that lock conflicts with what it asks for, and
 *   - every other owner that stands ahead of it there and conflicts with it.
 * A circle of waits never ends by itself, and is closed by a new wait, but for the cases that
 * docs/design.md names: so one look is taken, when a request is about to wait.
 *
 * An owner with several places in a queue stands where the first of them is. One that waits for
 * several keys waits for nobody in the queue of a key that it holds already.
 *
 * In each queue the search looks at the holders, the ties, and of all others at one at most: the
 * last writer ahead of a reader. Who holds a lock is not known here; the search asks.
 */
#ifndef LOCK_WAITSEARCH_H
#define LOCK_WAITSEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rules.h"
#include "waitgraph.h"
#include "waitqueue.h"

struct waitsearch;

/* Tells the search, by waitsearchReach, which owners hold the lock of this queue in a mode that
 * conflicts with `mode`. */
typedef void (*waitsearchHolders)(struct waitsearch *search, struct waitqueue *queue,
                                  enum lockMode mode, void *context);

/* One wait of a circle: `owner` waits in `queue` for the owner of the next step, who holds that
 * lock, or stands ahead. The last waits for the first. */
struct waitsearchStep {
    const char *owner; /* of the requests in the graph, or the asker's */
    size_t owner_length;
    struct waitqueue *queue;
    bool behind; /* the next one stands ahead, and no hold of it is in the way */
};

enum waitsearchResult {
    WAITSEARCH_NO_CIRCLE,
    WAITSEARCH_CIRCLE, /* `circle` tells it, the asker first */
    WAITSEARCH_GAVE_UP /* more than the given number of steps would have been needed */
};

struct waitsearchCircle {
    size_t length;
    struct waitsearchStep steps[];
};

/* Where a request that does not wait yet is going to stand. */
struct waitsearchAim {
    struct waitqueue **queues;
    size_t count;
    bool first; /* at the head, as whoever holds the lock has to: nobody stands ahead */
};

/* Whether the wait of `asker`, which is not in the graph, would close a circle. If it stands in all
 * its queues already, `aim` is NULL. Takes no more than `most` steps: to look at a holder, a tie, a
 * place is one; for waitsearchEachRequest the caller says. On WAITSEARCH_CIRCLE `*circle` is the
 * caller's, to be freed with memFree. */
enum waitsearchResult waitsearchFind(struct waitgraph *graph, const struct request *asker,
                                     const struct waitsearchAim *aim, size_t most,
                                     waitsearchHolders holders, void *context,
                                     struct waitsearchCircle **circle);

/* Within a waitsearchHolders: this owner is one of them. */
void waitsearchReach(struct waitsearch *search, const char *owner, size_t length);

/* Likewise, and nobody else holds the lock: a plain lock. */
void waitsearchReachAlone(struct waitsearch *search, const char *owner, size_t length);

/* Within a waitsearchHolders: calls `visit` for every request in the graph, and for the asker; so
 * many steps each. The shorter way when a lock has more holders than there are waiters. Asked for
 * the same once more, as happens when the asker has been looked from only, it visits the asker. */
void waitsearchEachRequest(struct waitsearch *search, size_t steps,
                           void (*visit)(struct waitsearch *search, const struct request *request,
                                         void *context),
                           void *context);

#endif
