/* The owners that a search for cycles (cyclesearch.h) has reached, and by which edges, so that it
 * can report the cycle. */
#ifndef LOCK_CYCLEPATH_H
#define LOCK_CYCLEPATH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/waitqueue.h"

/* The edge by which the search reached an owner. */
struct cyclepathEdge {
    size_t from;             /* the owner that waits for it: its number in the path */
    struct waitqueue *queue; /* where it waits */
    bool behind;             /* the reached owner is ahead there; no hold of it is in the way */
};

struct cyclepathReached {
    /* The first request of the owner; NULL if it has none in the graph. For number 0 the first one
     * other than the asker. */
    struct waitRequest *first;
    struct cyclepathEdge edge;
    bool stands_for_others; /* others were not reached, because it leads to the same owners */
    bool has_changed;       /* one of its requests has left the graph since it was reached */
};

#define CYCLEPATH_AT_FIRST 16

struct cyclepath {
    const struct waitRequest *asker;
    struct cyclepathReached *reached; /* number 0 is the asker's */
    size_t count, room;
    struct cyclepathReached few[CYCLEPATH_AT_FIRST];
};

/* One wait of a cycle: `owner` waits in `queue` for the owner of the next step, which holds that
 * lock or is ahead. The owner of the last step waits for that of the first. */
struct cyclepathStep {
    const char *owner; /* points into a request in the graph, or the asker */
    size_t owner_length;
    struct waitqueue *queue;
    bool behind; /* the next owner is ahead there; no hold of it is in the way */
};

struct cyclepathCycle {
    size_t length;
    struct cyclepathStep steps[];
};

/* Begins a path at the asker. `own`: the first of its owner's other requests, or NULL. To be ended
 * with cyclepathEnd. */
void cyclepathBegin(struct cyclepath *path, const struct waitRequest *asker,
                    struct waitRequest *own);

/* Frees the memory of the path. */
void cyclepathEnd(struct cyclepath *path);

/* Adds an owner, whose first request this is, and which was reached by this edge. Returns its
 * number. */
size_t cyclepathAdd(struct cyclepath *path, struct waitRequest *first,
                    const struct cyclepathEdge *edge);

/* To be called before a request of this owner, the first or another, leaves the graph. `first` is
 * the owner's first request from then on, or NULL. */
void cyclepathLeave(struct cyclepath *path, size_t owner, struct waitRequest *first);

/* Whether a request of any owner on the way from the asker to the end of this edge has left the
 * graph since that owner was reached. */
bool cyclepathHasChanged(const struct cyclepath *path, const struct cyclepathEdge *last);

/* A request of this owner. */
const struct waitRequest *cyclepathRequest(const struct cyclepath *path, size_t owner);

/* The cycle that this edge closes: the way from the asker to the asker, which comes first. Belongs
 * to the caller, to be freed with memFree. */
struct cyclepathCycle *cyclepathCycle(const struct cyclepath *path,
                                      const struct cyclepathEdge *last);

#endif
