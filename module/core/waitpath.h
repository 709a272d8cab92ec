/* The owners that a search for cycles (waitsearch.h) has come by, and how: so that it can tell the
 * way back. */
#ifndef LOCK_WAITPATH_H
#define LOCK_WAITPATH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/waitqueue.h"

/* How the search came to an owner. */
struct waitpathEdge {
    size_t from;             /* who waits for it: a number of the path */
    struct waitqueue *queue; /* where */
    bool behind;             /* it stands ahead, and no hold of it is in the way */
};

struct waitpathReached {
    struct request *first; /* of its requests; NULL: none, or of the asker no others */
    struct waitpathEdge edge;
    bool stands_for_others; /* it leads to others, who were not reached for that reason */
    bool has_changed;       /* since it was reached one of its requests has left the graph */
};

#define WAITPATH_AT_FIRST 16

struct waitpath {
    const struct request *asker;
    struct waitpathReached *reached; /* number 0 is the asker */
    size_t count, room;
    struct waitpathReached few[WAITPATH_AT_FIRST];
};

/* One wait of a cycle: `owner` waits in `queue` for the owner of the next step, who holds that
 * lock, or stands ahead. The last waits for the first. */
struct waitpathStep {
    const char *owner; /* of the requests in the graph, or the asker's */
    size_t owner_length;
    struct waitqueue *queue;
    bool behind; /* the next one stands ahead, and no hold of it is in the way */
};

struct waitpathCycle {
    size_t length;
    struct waitpathStep steps[];
};

/* `own`: the first of the asker's other requests, or NULL. To be ended with waitpathEnd. */
void waitpathBegin(struct waitpath *path, const struct request *asker, struct request *own);

void waitpathEnd(struct waitpath *path);

/* Returns the number of the owner. */
size_t waitpathAdd(struct waitpath *path, struct request *first, const struct waitpathEdge *edge);

/* A request of this owner, its first or not, is about to leave the graph. `first` is the owner's
 * first from then on, or NULL. */
void waitpathLeave(struct waitpath *path, size_t owner, struct request *first);

/* Whether any request has left the graph of the owners on the way from the asker that ends with this
 * edge. */
bool waitpathHasChanged(const struct waitpath *path, const struct waitpathEdge *last);

/* A request of this owner. */
const struct request *waitpathRequest(const struct waitpath *path, size_t owner);

/* The way from the asker that ends with this edge to it, the asker first. The caller's, to be freed
 * with memFree. */
struct waitpathCycle *waitpathCycle(const struct waitpath *path, const struct waitpathEdge *last);

#endif
