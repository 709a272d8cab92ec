/* The wait-for graph: every request that waits, by its owner.
 *
 * It also knows which positions of a queue are *ties*: those whose owner waits for something else
 * too. Only ties lead from one queue to another, so a search for cycles (cyclesearch.h) never walks
 * a queue of ten thousand requests for one lock.
 *
 * An owner may wait for the same on thousands of connections. All such requests but the oldest are
 * *copies*: they lead nowhere that the oldest does not, and are no ties.
 *
 * A request enters the graph after the search from it, which is made a moment after it began to
 * wait. Until then it is a *newcomer*, and no search from another request sees it. So if two
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
 * may leave the graph: an element that leaves its list is never the next one here. */
struct waitgraphWalks {
    struct position *tie;
    struct waitRequest *request;
    struct waitqueue *waited;
};

/* Requests that wait, each of which is in all its queues. All zero is an empty graph. */
struct waitgraph {
    struct map by_owner;
    struct list requests;       /* in the graph, linked by `in_list` */
    struct list newcomers;      /* in order of arrival, linked by `in_list` */
    struct list waited;         /* queues with a request of the graph, linked by `in_waited` */
    uint64_t searches;          /* how many there have been */
    struct cyclesearch *search; /* the current one, or NULL */
    struct waitgraphWalks next;
};

/* The request is in all its queues now, and becomes a newcomer. */
void waitgraphAnnounce(struct waitgraph *graph, struct waitRequest *request);

/* The newcomer that came first, or NULL. */
struct waitRequest *waitgraphFirstNewcomer(const struct waitgraph *graph);

/* Adds the request, which is in all its queues, to the graph. It is no longer a newcomer. */
void waitgraphEnter(struct waitgraph *graph, struct waitRequest *request);

/* Removes the request, which no longer waits, from the graph or the newcomers; does nothing if it
 * is in neither. To be called before its positions leave their queues, and not during a search: see
 * cyclesearchLeave. */
void waitgraphLeave(struct waitgraph *graph, struct waitRequest *request);

/* Whether no request of the graph is behind this position of a newcomer. */
bool waitgraphIsLast(struct position *newcomer);

/* Whether the newcomer only repeats what its owner has been waiting for many times already, so that
 * no search from it is needed. O(1). */
bool waitgraphAsksForNothingNew(const struct waitRequest *newcomer);

/* How many requests are in the graph. */
size_t waitgraphSize(const struct waitgraph *graph);

/* Whether the request is in the graph. */
bool waitgraphHas(const struct waitRequest *request);

/* The oldest request of this owner in the graph, which is no copy; or NULL. */
struct waitRequest *waitgraphFirstOf(const struct waitgraph *graph, const char *owner,
                                     size_t length);

/* The next request of the same owner, or NULL after the youngest. */
struct waitRequest *waitgraphNextOf(const struct waitRequest *request);

/* Walks: the first function begins a walk, the second returns one element after the other, then
 * NULL. There is one walk of each kind at a time. What enters the graph meanwhile may be left
 * out. */

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
