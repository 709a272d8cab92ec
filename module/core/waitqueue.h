/* The positions in the queue of one lock, in the order in which the grant pass visits them.
 *
 * This is the order of arrival, except that an upgrade is at the head (rule 2 of docs/design.md).
 * The queue knows the owner of a request and in which mode it waits here, but not the waiter. Each
 * request belongs to a waiter of waiters.c. A waiter for several keys has one request, which has a
 * position in the queue of each key, each with a mode of its own. Every function is O(1).
 */
#ifndef LOCK_WAITQUEUE_H
#define LOCK_WAITQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/list.h"
#include "core/rules.h"

/* Whether a request waits behind requests that already wait (rule 3 of docs/design.md). */
enum discipline {
    PLAIN,   /* waits for holds only, and may barge in when the lock is free */
    ORDERED, /* also waits behind every request ahead of it with which it conflicts */
    FAIR,    /* as ORDERED; the position, one for each owner, is stored in keys */
    MULTIKEY /* as ORDERED, for several keys at once; no request barges in while it waits */
};

/* What a waiter waits for, as far as core/ has to know it. */
struct waitRequest {
    const char *owner; /* owner_length bytes that belong to the caller */
    size_t owner_length;
    struct list positions; /* one in each of its queues, linked by `of_request` */
    /* For waitgraph.c and cyclesearch.c. */
    struct mapEntry by_requester; /* the entry in the graph; has no key if it is not in the graph */
    struct link in_list;          /* in `newcomers` or `requests` of the graph */
    /* If this is the first request of its owner, the last search that has reached the owner, and
     * the owner's number in the path of that search. */
    uint64_t reached_in;
    size_t reached_as;
    enum discipline discipline;
    bool is_newcomer;
    bool is_copy; /* an older request of its owner in the graph waits for the same */
    bool once;    /* ONCE: a hold that its owner already has is sufficient */
};

struct waitqueue;

/* How many positions an owner has in a queue. */
struct waitqueueOwn {
    uint32_t by_mode[MODE_COUNT];
    uint32_t multikey; /* positions of discipline MULTIKEY */
};

/* Where a request stands in the queue of one lock. */
struct position {
    struct link in_queue;
    struct mapEntry by_owner;
    struct link of_request;
    struct waitqueue *queue; /* NULL if the position is in no queue */
    struct waitRequest *request;
    enum lockMode mode;     /* in which the request waits for this lock */
    int64_t order;          /* lower than that of every position behind it in its queue */
    struct link in_writers; /* if the position excludes readers */
    struct link in_candidates;
    struct link in_ties;
    struct waitqueueOwn own; /* the counts of the owner; only in the owner's first position */
    bool is_tie;             /* the position is in the queue's `ties` */
    bool is_aside;           /* it is not in the queue's `candidates` */
};

/* What the last search (cyclesearch.h) has seen of a queue. */
struct waitqueueSeen {
    uint64_t search;
    /* An owner is its number in the path plus 1; 0 is none. */
    size_t looked;              /* the owner whose positions in this queue were expanded last */
    bool looked_as[MODE_COUNT]; /* in which modes they were expanded */
    size_t alone;               /* the only holder of the lock, if it waits for something */
    /* The order of the asker in this queue; INT64_MAX if it is at the end, or not in this queue. */
    int64_t asker;
    enum lockMode asker_mode; /* in which the asker waits here; only if it is not at the end */
    /* For each mode of a request, all ties before this order have been visited. */
    int64_t before[MODE_COUNT];
    /* For each mode of a request, whether the holders have been visited, and whether all requests
     * except the asker have been tested for being holders. */
    bool holders[MODE_COUNT];
    bool asked[MODE_COUNT];
};

/* An empty queue is all zero, and owns no memory. */
struct waitqueue {
    struct list positions;
    struct list writers; /* the positions that exclude readers, in the same order */
    /* The positions that a grant pass may have to check, in the same order: all except those that
     * stand aside. */
    struct list candidates;
    struct map by_owner; /* all positions; those of one owner in the order of the queue */
    /* Whether a request has to wait behind others is known from these two without a walk. */
    size_t by_mode[MODE_COUNT];
    size_t multikey; /* positions of discipline MULTIKEY */
    size_t once;     /* of requests with ONCE; 0: no pass of a semaphore searches for them */
    /* For waitgraph.c and cyclesearch.c. */
    struct list ties;      /* positions whose owner waits elsewhere too, unordered, by `in_ties` */
    size_t in_graph;       /* positions of requests in the graph */
    int64_t graph_end;     /* higher than the order of each of these positions */
    struct link in_waited; /* in `waited` of the graph, while there are such positions */
    struct waitqueueSeen seen;
};

/* The position that contains this link or entry; NULL for NULL. */
static inline struct position *waitqueueOfLink(struct link *in_queue) {
    return LIST_ELEMENT_OR_NULL(in_queue, struct position, in_queue);
}
static inline struct position *waitqueueOfRequestLink(struct link *of_request) {
    return LIST_ELEMENT_OR_NULL(of_request, struct position, of_request);
}
static inline struct position *waitqueueFromEntry(struct mapEntry *by_owner) {
    return LIST_ELEMENT_OR_NULL(by_owner, struct position, by_owner);
}

/* Whether this position excludes readers. */
static inline bool waitqueueIsWriter(const struct position *position) {
    return rulesConflict(position->mode, MODE_READ);
}

/* Adds `position`, at which `request` waits in this mode, at the end. The request must exist for as
 * long as the position is in the queue. */
void waitqueueAdd(struct waitqueue *queue, struct position *position, struct waitRequest *request,
                  enum lockMode mode);

/* Adds `position` at the head, for an upgrade. */
void waitqueueAddFirst(struct waitqueue *queue, struct position *position,
                       struct waitRequest *request, enum lockMode mode);

/* Removes the position from its queue. */
void waitqueueRemove(struct position *position);

/* A position that stands aside keeps its place in the queue, but a grant pass goes on with those
 * behind it. For readers for several keys that do not wait for this lock now. waitqueueStandAside
 * does nothing if the position stands aside already, and waitqueueStandIn if it does not; the
 * latter is O(1) unless positions behind it are candidates. */
void waitqueueStandAside(struct position *position);
void waitqueueStandIn(struct position *position);

/* Moves a position to the head of its queue. To be called when its owner has acquired a hold,
 * because the request has become an upgrade. */
void waitqueueMoveFirst(struct position *position);

/* Replaces `old` in its queue by `position`, which must be in no queue, and has the mode of `old`.
 * Both must be of the same owner. */
void waitqueueTakeOver(struct position *old, struct position *position,
                       struct waitRequest *request);

/* The position at the head, or NULL. */
static inline struct position *waitqueueFirst(const struct waitqueue *queue) {
    return waitqueueOfLink(queue->positions.first);
}

/* The first position that does not stand aside, or NULL. */
static inline struct position *waitqueueFirstCandidate(const struct waitqueue *queue) {
    return LIST_ELEMENT_OR_NULL(queue->candidates.first, struct position, in_candidates);
}

/* Whether the grant pass may grant this position, which is the first candidate, and does not own
 * the lock: if it conflicts with none of the positions ahead of it, all of which are readers that
 * stand aside. */
static inline bool waitqueueIsNext(const struct position *candidate) {
    return candidate->mode == MODE_READ || waitqueueFirst(candidate->queue) == candidate;
}

/* Whether a position conflicts with another one ahead of it, of any owner. */
bool waitqueueStandsBehind(const struct position *position);

/* The position behind this one, or NULL. */
static inline struct position *waitqueueNext(const struct position *position) {
    return waitqueueOfLink(position->in_queue.next);
}

/* The last position in the queue that excludes readers, and the last such position before this one;
 * or NULL. */
struct position *waitqueueLastWriter(const struct waitqueue *queue);
struct position *waitqueueWriterBefore(const struct position *position);

/* The first position of the request, and its next one, which is in another queue; or NULL. */
static inline struct position *waitqueueFirstOf(const struct waitRequest *request) {
    return waitqueueOfRequestLink(request->positions.first);
}
static inline struct position *waitqueueNextOf(const struct position *position) {
    return waitqueueOfRequestLink(position->of_request.next);
}

/* The first position of this owner, or NULL. An owner may have several, on several connections. */
static inline struct position *waitqueueOfOwner(const struct waitqueue *queue, const char *owner,
                                                size_t length) {
    return waitqueueFromEntry(mapFind(&queue->by_owner, owner, length));
}

/* The next position of the same owner in the same queue, or NULL after the last one. */
static inline struct position *waitqueueNextOfOwner(const struct position *position) {
    return waitqueueFromEntry(mapFindNext(&position->by_owner));
}

/* Whether both requests have the same owner. */
bool waitqueueSameOwner(const struct waitRequest *one, const struct waitRequest *other);

/* How many positions this owner has in the queue. */
size_t waitqueueCountOf(const struct waitqueue *queue, const char *owner, size_t length);

/* A request that is not in the queue yet. `owner` has owner_length bytes. */
struct waitqueueNewcomer {
    const char *owner;
    size_t owner_length;
    enum lockMode mode;
    enum discipline discipline;
};

/* Whether a new request must wait behind others (rule 3). A request of any discipline except PLAIN
 * must if another owner waits in this queue for a mode that conflicts with its own; a request for
 * permits also if its own owner waits. A request of discipline PLAIN must if another owner waits
 * for several keys at once, because that request would never find all keys free if others barged
 * in. */
bool waitqueueBlocks(const struct waitqueue *queue, const struct waitqueueNewcomer *newcomer);

#endif
