/* The owners that a search for cycles (cyclesearch.h) has reached, and the edges by which it has
 * reached them, so that it can report the cycle. */
#ifndef LOCK_CYCLEPATH_H
#define LOCK_CYCLEPATH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/waitqueue.h"

/* The edge by which the search reached an owner. */
struct cyclepathEdge {
    size_t from;             /* the number in the path of the owner that waits */
    struct waitqueue *queue; /* the queue in which that owner waits */
    bool behind;             /* it waits behind the reached owner's request, not for a hold */
};

struct cyclepathReached {
    /* The first request of the owner; NULL if the owner has no request in the graph. For number 0
     * the first one other than the asker. */
    struct waitRequest *first;
    struct cyclepathEdge edge;
    bool stands_for_others; /* others were not reached, because this one leads to the same owners */
    bool has_changed;       /* one of its requests has left the graph since it was reached */
};

#define CYCLEPATH_AT_FIRST 16

struct cyclepath {
    const struct waitRequest *asker;
    struct cyclepathReached *reached; /* number 0 is the asker's owner */
    size_t count, room;
    struct cyclepathReached few[CYCLEPATH_AT_FIRST];
};

/* One wait of a cycle. `owner` waits in `queue` for the owner of the next step, which holds that
 * lock or is ahead in the queue. The owner of the last step waits for the owner of the first step.
 */
struct cyclepathStep {
    const char *owner; /* points into a request in the graph, or the asker */
    size_t owner_length;
    struct waitqueue *queue;
    bool behind; /* `owner` waits behind the next owner's request, not for a hold */
};

struct cyclepathCycle {
    size_t length;
    struct cyclepathStep steps[];
};

/* Begins a path at the asker. `own` is the first of the other requests of the asker's owner, or
 * NULL. To be ended with cyclepathEnd. */
void cyclepathBegin(struct cyclepath *path, const struct waitRequest *asker,
                    struct waitRequest *own);

/* Frees the memory of the path. */
void cyclepathEnd(struct cyclepath *path);

/* Adds an owner that was reached by this edge, and whose first request is `first`. Returns the
 * number of the owner. */
size_t cyclepathAdd(struct cyclepath *path, struct waitRequest *first,
                    const struct cyclepathEdge *edge);

/* To be called before any request of this owner leaves the graph. `first` is the first request of
 * the owner after that, or NULL. */
void cyclepathLeave(struct cyclepath *path, size_t owner, struct waitRequest *first);

/* Whether a request of any owner on the way from the asker to the end of this edge has left the
 * graph since that owner was reached. */
bool cyclepathHasChanged(const struct cyclepath *path, const struct cyclepathEdge *last);

/* Any request of this owner. */
const struct waitRequest *cyclepathRequest(const struct cyclepath *path, size_t owner);

/* The cycle that this edge closes. The first step is the asker's, and the last step leads back to
 * the asker. The caller must free it with memFree. */
struct cyclepathCycle *cyclepathCycle(const struct cyclepath *path,
                                      const struct cyclepathEdge *last);

#endif
