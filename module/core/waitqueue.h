/* The positions of one lock, in the order in which the grant pass will visit them.
 *
 * That is the order of arrival, except that an upgrade is at the head (rule 2 of docs/design.md).
 * The queue knows the owner and the mode of a request, but not how it waits: a request belongs to a
 * waiter of waiters.c, and a waiter for several keys has one request with a position in the queue
 * of each key. Every function is O(1).
 */
#ifndef LOCK_WAITQUEUE_H
#define LOCK_WAITQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/list.h"
#include "core/rules.h"

/* How a request treats those that wait already (rule 3 of docs/design.md). */
enum discipline {
    PLAIN,   /* only the holds matter: it may barge in when the lock happens to be free */
    ORDERED, /* also waits behind every request ahead of it with which it conflicts */
    FAIR,    /* the same, and its position is stored in keys: one for each owner */
    MULTIKEY /* the same, for several keys at once; and no request barges in while it waits */
};

struct waitRequest {
    const char *owner; /* owner_length bytes that belong to the caller */
    size_t owner_length;
    enum lockMode mode;
    enum discipline discipline;
    struct list positions; /* one in each of its queues, linked by `of_request` */
    /* For waitgraph.c and cyclesearch.c. */
    struct mapEntry by_requester; /* its entry in the graph; without a key if it is not there */
    struct link in_list;          /* in the graph's `newcomers`, or its `requests` */
    /* If this is the first request of its owner: the last search that has reached the owner, and
     * the owner's number in the path of that. */
    uint64_t reached_in;
    size_t reached_as;
    bool is_newcomer;
    bool is_copy; /* an older request of its owner in the graph waits for the same */
    bool once;    /* by ONCE: a hold that its owner already has is enough */
};

struct waitqueue;

/* How many positions an owner has in a queue. */
struct waitqueueOwn {
    uint32_t by_mode[MODE_COUNT];
    uint32_t multikey; /* those of discipline MULTIKEY */
};

struct position {
    struct link in_queue;
    struct mapEntry by_owner;
    struct link of_request;
    struct waitqueue *queue; /* NULL if it is in none */
    struct waitRequest *request;
    int64_t order;          /* lower than that of every position behind it in its queue */
    struct link in_writers; /* if it excludes readers */
    struct link in_ties;
    struct waitqueueOwn own; /* the counts of its owner here; only in the owner's first position */
    bool is_tie;             /* it is in the queue's `ties` */
};

/* What the last search (cyclesearch.h) has seen of a queue. */
struct waitqueueSeen {
    uint64_t search;
    /* Owners are given by their number in the path, plus one; 0 is none. */
    size_t looked;              /* the owner whose positions here were expanded last */
    bool looked_as[MODE_COUNT]; /* in which modes they were expanded */
    size_t alone;               /* the only holder of the lock, if it waits for something */
    /* The order of the asker here; INT64_MAX if it is at the end, or not here. */
    int64_t asker;
    /* By the mode of a request: the ties before this order have been visited. */
    int64_t before[MODE_COUNT];
    /* By the mode of a request: whether its holders have been visited, and whether all requests but
     * the asker have been tested for being holders. */
    bool holders[MODE_COUNT];
    bool asked[MODE_COUNT];
};

/* All zero is an empty queue, which owns no memory. */
struct waitqueue {
    struct list positions;
    struct list writers; /* the positions that exclude readers, in the same order */
    struct map by_owner;
    size_t by_mode[MODE_COUNT];
    size_t multikey; /* positions of discipline MULTIKEY */
    size_t once;     /* positions of requests with ONCE */
    /* For waitgraph.c and cyclesearch.c. */
    struct list ties;      /* positions whose owner waits elsewhere too, unordered, by `in_ties` */
    size_t in_graph;       /* positions of requests in the graph */
    int64_t graph_end;     /* higher than the order of each of those */
    struct link in_waited; /* in the graph's `waited`, while there are any */
    struct waitqueueSeen seen;
};

/* Adds `position` at the end, for `request`, which must exist for as long as the position is in the
 * queue. */
void waitqueueAdd(struct waitqueue *queue, struct position *position, struct waitRequest *request);

/* Adds `position` at the head, for an upgrade. */
void waitqueueAddFirst(struct waitqueue *queue, struct position *position,
                       struct waitRequest *request);

/* Removes the position from its queue. */
void waitqueueRemove(struct position *position);

/* Moves a position to the head of its queue: its owner has acquired a hold, so what it waits for
 * has become an upgrade. */
void waitqueueMoveFirst(struct position *position);

/* Puts `position`, which is in no queue, in the place of `old`, which is removed. Both are of the
 * same owner. */
void waitqueueTakeOver(struct position *old, struct position *position,
                       struct waitRequest *request);

/* The position at the head, or NULL. */
struct position *waitqueueFirst(const struct waitqueue *queue);

/* The position behind this one, or NULL. */
struct position *waitqueueNext(const struct position *position);

/* The last position here that excludes readers; and the last such position before this one; or
 * NULL. */
struct position *waitqueueLastWriter(const struct waitqueue *queue);
struct position *waitqueueWriterBefore(const struct position *position);

/* The first position of the request, in whatever queue; and the one after this; or NULL. */
struct position *waitqueueFirstOf(const struct waitRequest *request);
struct position *waitqueueNextOf(const struct position *position);

/* The first position of this owner, or NULL. An owner may have several, on several connections. */
struct position *waitqueueOfOwner(const struct waitqueue *queue, const char *owner, size_t length);

/* The next position of the same owner in the same queue, further behind; or NULL after the last. */
struct position *waitqueueNextOfOwner(const struct position *position);

/* Whether both requests have the same owner. */
bool waitqueueSameOwner(const struct waitRequest *one, const struct waitRequest *other);

/* How many positions this owner has in the queue. */
size_t waitqueueCountOf(const struct waitqueue *queue, const char *owner, size_t length);

/* Whether a new request has to wait behind others (rule 3). An ordered one: if another owner waits
 * here for a mode that conflicts with its own; one for permits also if its own owner does. A plain
 * one: if another owner waits for several keys at once, because that request would never find all
 * of them free if others barged in. */
bool waitqueueBlocks(const struct waitqueue *queue, const struct waitRequest *request);

#endif
