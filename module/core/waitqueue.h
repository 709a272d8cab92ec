/* The positions of one lock, in the order in which the grant pass will look at them.
 *
 * Order of arrival, except that an upgrade stands at the head (rule 2). The queue knows who asks
 * for what, not how they wait: a request belongs to a waiter of waiters.c, and a waiter for several
 * keys has one request and a position in each key's queue. Every function is O(1).
 */
#ifndef LOCK_WAITQUEUE_H
#define LOCK_WAITQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/list.h"
#include "core/rules.h"

/* How a request treats those who wait already (rule 3). */
enum discipline {
    PLAIN,   /* looks at the holds only: may barge in when the lock happens to be free */
    ORDERED, /* also waits behind every waiter ahead of it that it conflicts with */
    FAIR,    /* likewise, and its position is kept in keys: one for each owner */
    MULTIKEY /* likewise, for several keys at once; and nobody barges in while it waits */
};

struct request {
    const char *owner; /* owner_length bytes, the requester's */
    size_t owner_length;
    enum lockMode mode;
    enum discipline discipline;
    struct list positions; /* one in each queue in which it stands, by `of_request` */
    /* For waitgraph.c and waitsearch.c. */
    struct mapEntry by_requester; /* in the graph, while it is there */
    struct link in_list;          /* of the graph's newcomers, or of the requests that it has */
    uint64_t reached_in; /* the last search that reached its owner, if it is the first of those … */
    size_t reached_as;   /* … and as which number of the path */
    bool is_newcomer;
    bool is_copy; /* an older request of its owner in the graph waits for the same */
    bool once;    /* its owner's hold is enough for it, whoever acquired that */
};

struct waitqueue;

/* How many positions an owner has in a queue. */
struct waitqueueOwn {
    uint32_t by_mode[MODE_COUNT];
    uint32_t multikey; /* of them, of discipline MULTIKEY */
};

struct position {
    struct link in_queue;
    struct mapEntry by_owner;
    struct link of_request;
    struct waitqueue *queue; /* NULL while it stands in none */
    struct request *request;
    int64_t order;          /* lower than that of every position behind it in its queue */
    struct link in_writers; /* if it asks for more than to read */
    struct link in_ties;
    struct waitqueueOwn own; /* of its owner here; of the owner's first position only */
    bool is_tie;             /* stands in the queue's `ties` */
};

/* What one search (waitsearch.h) has seen of a queue. */
struct waitqueueSeen {
    uint64_t search;
    /* Owners by their number in the path, plus one: 0 is none. */
    size_t looked;              /* the owner whose positions here were looked from last … */
    bool looked_as[MODE_COUNT]; /* … in which modes */
    size_t alone;               /* the owner that holds the lock alone, if that waits */
    int64_t asker; /* where the asker is going to stand, INT64_MAX if at the end or not at all */
    int64_t
        before[MODE_COUNT];   /* the ties below this order, as a request for this mode sees them */
    bool holders[MODE_COUNT]; /* who is in the way of such a request */
    bool asked[MODE_COUNT];   /* all others than the asker, whether they are */
};

/* All zero is an empty queue. An empty queue owns no memory. */
struct waitqueue {
    struct list positions;
    struct list writers; /* those positions that exclude readers, in the same order */
    struct map by_owner;
    size_t by_mode[MODE_COUNT];
    size_t multikey; /* positions of discipline MULTIKEY */
    size_t once;     /* positions of requests by ONCE */
    /* For waitgraph.c and waitsearch.c. */
    struct list ties;  /* positions whose owner stands elsewhere too, in no order, by `in_ties` */
    size_t in_graph;   /* positions of requests that are in the graph */
    int64_t graph_end; /* above the order of each of those */
    struct link in_waited; /* of the graph's `waited`, while there are any */
    struct waitqueueSeen seen;
};

/* Puts `position` at the end, for `request`, which must outlive its stay. */
void waitqueueAdd(struct waitqueue *queue, struct position *position, struct request *request);

/* Puts `position` at the head, for an upgrade. */
void waitqueueAddFirst(struct waitqueue *queue, struct position *position, struct request *request);

/* Takes the position out of its queue. */
void waitqueueRemove(struct position *position);

/* Moves a position that stands in its queue to the head of it: its owner has come by a hold, so
 * what it waits for has become an upgrade. */
void waitqueueMoveFirst(struct position *position);

/* `position`, which stands in no queue, takes the place of `old`, which then stands in none. Both are
 * of the same owner. */
void waitqueueTakeOver(struct position *old, struct position *position, struct request *request);

/* The position at the head, or NULL. */
struct position *waitqueueFirst(const struct waitqueue *queue);

/* The position behind this one, or NULL. */
struct position *waitqueueNext(const struct position *position);

/* The last position here that excludes readers; the one of that kind before this one; or NULL. */
struct position *waitqueueLastWriter(const struct waitqueue *queue);
struct position *waitqueueWriterBefore(const struct position *position);

/* A position of the request, in whatever queue; another one; or NULL. */
struct position *waitqueueFirstOf(const struct request *request);
struct position *waitqueueNextOf(const struct position *position);

/* The first position of this owner, or NULL. An owner may have several, on several connections. */
struct position *waitqueueOfOwner(const struct waitqueue *queue, const char *owner, size_t length);

/* The next position of the same owner in the same queue, further behind; or NULL after the last. */
struct position *waitqueueNextOfOwner(const struct position *position);

/* Whether both requests are of one owner. */
bool waitqueueSameOwner(const struct request *one, const struct request *other);

/* How many positions this owner has in the queue. */
size_t waitqueueCountOf(const struct waitqueue *queue, const char *owner, size_t length);

/* Whether the newcomer has to stand behind (rule 3). An ordered one: when anybody other than its
 * owner waits here for a mode that conflicts with its own; one for permits also when its owner
 * does. A plain one: when anybody else waits for several keys at once, who would never find all of
 * them free if others barged in. */
bool waitqueueBlocks(const struct waitqueue *queue, const struct request *request);

#endif
