/* The wait-for graph. It contains every request that waits, by its owner.
 *
 * It also records which positions of a queue are *ties*. A position is a tie if its owner also
 * waits for something else. Only ties lead from one queue to another, so a search for cycles
 * (cyclesearch.h) never walks a queue of ten thousand requests for one lock.
 *
 * An owner may wait for the same locks on thousands of connections. All such requests except the
 * oldest are *copies*. They do not lead to other owners than the oldest one does, and are not ties.
 *
 * A request enters the graph after the search from it, which is made a moment after it began to
 * wait. Until then it is a *newcomer*, and no search from another request visits it. So if two
 * newcomers close a cycle together, it is found once, by the search from the later one.
 */
#ifndef LOCK_WAITGRAPH_H
#define LOCK_WAITGRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/rules.h"
#include "core/waitqueue.h"

struct cyclesearch;

/* The next element of each walk that a search makes in several steps. Between two steps requests
 * may leave the graph. When an element leaves its list, the next element here is set to the one
 * after it. */
struct waitgraphWalks {
    struct position *tie;
    struct waitRequest *request;
    struct waitqueue *waited;
};

/* Requests that wait, each of which is in all its queues. An empty graph is all zero. */
struct waitgraph {
    struct map by_owner;
    struct list requests;       /* in the graph, linked by `in_list` */
    struct list newcomers;      /* in order of arrival, linked by `in_list` */
    struct list waited;         /* queues with a request of the graph, linked by `in_waited` */
    uint64_t searches;          /* how many searches have been made */
    struct cyclesearch *search; /* the current search, or NULL */
    struct waitgraphWalks next;
};

/* To be called when the request is in all its queues. It becomes a newcomer. */
void waitgraphAnnounce(struct waitgraph *graph, struct waitRequest *request);

/* The oldest newcomer, or NULL. */
struct waitRequest *waitgraphFirstNewcomer(const struct waitgraph *graph);

/* Adds the request, which is in all its queues, to the graph. It is no longer a newcomer. */
void waitgraphEnter(struct waitgraph *graph, struct waitRequest *request);

/* Removes the request, which no longer waits, from the graph or the newcomers. Does nothing if it
 * is in neither. To be called before its positions leave their queues, and not during a search (see
 * cyclesearchLeave). */
void waitgraphLeave(struct waitgraph *graph, struct waitRequest *request);

/* Whether no request of the graph is behind this position of a newcomer. */
bool waitgraphIsLast(struct position *newcomer);

/* Whether the newcomer only repeats what its owner has been waiting for many times already, so that
 * no search from it is needed. O(1). */
bool waitgraphAsksForNothingNew(const struct waitRequest *newcomer);

/* How many requests are in the graph. */
size_t waitgraphSize(const struct waitgraph *graph);

/* Whether the request is in the graph. */
static inline bool waitgraphHas(const struct waitRequest *request) {
    return request->by_requester.key;
}

/* The oldest request of this owner in the graph, which is not a copy; or NULL. */
struct waitRequest *waitgraphFirstOf(const struct waitgraph *graph, const char *owner,
                                     size_t length);

/* The next request of the same owner, or NULL after the youngest. */
struct waitRequest *waitgraphNextOf(const struct waitRequest *request);

/* Walks. The first function begins a walk. The second one returns one element after the other, and
 * then NULL. There is only one walk of each kind at a time. Elements that enter the graph during a
 * walk may be skipped. */

/* The ties of this queue, the youngest first. */
void waitgraphWalkTies(struct waitgraph *graph, const struct waitqueue *queue);
struct position *waitgraphNextTie(struct waitgraph *graph);

/* The requests in the graph, without copies. */
void waitgraphWalkRequests(struct waitgraph *graph);
struct waitRequest *waitgraphNextRequest(struct waitgraph *graph);

/* The queues with a request of the graph. */
void waitgraphWalkWaited(struct waitgraph *graph);
struct waitqueue *waitgraphNextWaited(struct waitgraph *graph);

#endif
