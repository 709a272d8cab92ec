/* Who waits where: every request that waits, by its owner.
 *
 * And which of a queue's positions are *ties*: those whose owner waits for something else too. Only
 * they lead from one queue to another, so a search for cycles (waitsearch.h) never walks a queue
 * of ten thousand who wait for one lock.
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

/* Of requests that wait, each in all its queues. All zero is an empty graph. */
struct waitgraph {
    struct map by_owner;
    uint64_t searches;     /* how many there have been */
    struct list newcomers; /* in order of arrival, by `in_newcomers` */
    struct list waited;    /* queues in which somebody of the graph stands, by `in_waited` */
};

/* The request stands in all its queues now, and is to enter later. */
void waitgraphAnnounce(struct waitgraph *graph, struct request *request);

/* The newcomer that came first, or NULL. */
struct request *waitgraphFirstNewcomer(const struct waitgraph *graph);

/* The request stands in all its queues now. It is no newcomer any more. */
void waitgraphEnter(struct waitgraph *graph, struct request *request);

/* The request does not wait any more. To be called before its positions leave their queues. Does
 * nothing when it is neither in the graph nor a newcomer. */
void waitgraphLeave(struct waitgraph *graph, struct request *request);

/* Whether nobody who is in the graph stands behind this position of a newcomer. */
bool waitgraphIsLast(struct position *newcomer);

/* A queue in which somebody who is in the graph stands; another one; or NULL. */
struct waitqueue *waitgraphFirstWaited(const struct waitgraph *graph);
struct waitqueue *waitgraphNextWaited(const struct waitqueue *queue);

/* Whether the newcomer only repeats what its owner has been waiting for many times already, so that
 * no search from it is needed. O(1). */
bool waitgraphAsksForNothingNew(const struct waitgraph *graph, const struct request *newcomer);

/* How many requests are in the graph. */
size_t waitgraphSize(const struct waitgraph *graph);

/* Whether the request is in the graph. */
bool waitgraphHas(const struct request *request);

/* A request of this owner, the same one each time as long as none comes or goes; or NULL. */
struct request *waitgraphFirstOf(const struct waitgraph *graph, const char *owner, size_t length);

/* Another request of the same owner, or NULL after the last. */
struct request *waitgraphNextOf(const struct request *request);

/* The youngest tie of this queue; the one that is older; or NULL. */
struct position *waitgraphLastTie(const struct waitqueue *queue);
struct position *waitgraphTieBefore(const struct position *position);

/* Makes ties of all positions of an owner that has none, as if it stood in another queue too. Returns
 * one of its requests, or NULL if there is nothing to do; to be taken back with waitgraphUntieAll,
 * before anybody comes or goes. */
struct request *waitgraphTieAll(const struct waitgraph *graph, const char *owner, size_t length);
void waitgraphUntieAll(struct request *first);

#endif
