/* Who waits where: every request that waits, by its owner.
 *
 * And which of a queue's positions are *ties*: those whose owner waits for something else too. Only
 * they lead from one queue to another, so a search for cycles (waitsearch.h) never walks a queue
 * of ten thousand who wait for one lock.
 *
 * An owner may wait for the same on thousands of connections. All but the oldest of such requests
 * are *copies*: they lead nowhere that the oldest does not, and are no ties.
 *
 * A request enters the graph when it has been searched from, which is a moment after it has begun to
 * wait. Until then it is a *newcomer*, and nobody else's search sees it: so the cycle that two of
 * them close together is found once, and from the later one.
 */
#ifndef LOCK_WAITGRAPH_H
#define LOCK_WAITGRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/rules.h"
#include "core/waitqueue.h"

struct waitsearch;

/* Where a search goes on with what it walks through in several steps. Whatever leaves a list that is
 * walked is never what comes next: between two steps requests may leave the graph. */
struct waitgraphWalks {
    struct position *tie;
    struct request *request;
    struct waitqueue *waited;
};

/* Of requests that wait, each in all its queues. All zero is an empty graph. */
struct waitgraph {
    struct map by_owner;
    struct list requests;      /* that are in the graph, by `in_list` */
    struct list newcomers;     /* in order of arrival, by `in_list` */
    struct list waited;        /* queues in which a request of the graph stands, by `in_waited` */
    uint64_t searches;         /* how many there have been */
    struct waitsearch *search; /* the one that has begun, or NULL */
    struct waitgraphWalks next;
};

/* The request stands in all its queues now, and is to enter later. */
void waitgraphAnnounce(struct waitgraph *graph, struct request *request);

/* The newcomer that came first, or NULL. */
struct request *waitgraphFirstNewcomer(const struct waitgraph *graph);

/* The request stands in all its queues now. It is no newcomer any more. */
void waitgraphEnter(struct waitgraph *graph, struct request *request);

/* The request does not wait any more. To be called before its positions leave their queues. Does
 * nothing when it is neither in the graph nor a newcomer. Not while there is a search: see
 * waitsearchLeave. */
void waitgraphLeave(struct waitgraph *graph, struct request *request);

/* Whether nobody who is in the graph stands behind this position of a newcomer. */
bool waitgraphIsLast(struct position *newcomer);

/* Whether the newcomer only repeats what its owner has been waiting for many times already, so that
 * no search from it is needed. O(1). */
bool waitgraphAsksForNothingNew(const struct request *newcomer);

/* How many requests are in the graph. */
size_t waitgraphSize(const struct waitgraph *graph);

/* Whether the request is in the graph. */
bool waitgraphHas(const struct request *request);

/* The oldest request of this owner, which is no copy; or NULL. */
struct request *waitgraphFirstOf(const struct waitgraph *graph, const char *owner, size_t length);

/* The next request of the same owner, or NULL after the youngest. */
struct request *waitgraphNextOf(const struct request *request);

/* Walks: each begins with the first call, and the second gives one element after the other, then
 * NULL. One walk of a kind at a time; what enters the graph meanwhile may be left out. */

/* The ties of this queue, the youngest first. */
void waitgraphWalkTies(struct waitgraph *graph, const struct waitqueue *queue);
struct position *waitgraphNextTie(struct waitgraph *graph);

/* The requests that are in the graph, but for copies. */
void waitgraphWalkRequests(struct waitgraph *graph);
struct request *waitgraphNextRequest(struct waitgraph *graph);

/* The queues in which a request of the graph stands. */
void waitgraphWalkWaited(struct waitgraph *graph);
struct waitqueue *waitgraphNextWaited(struct waitgraph *graph);

#endif
