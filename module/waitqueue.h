/* The places of one lock, in the order in which the grant pass will look at them.
 *
 * Order of arrival, except that an upgrade stands at the head (rule 2). The queue knows who asks
 * for what, not how they wait: a request belongs to a waiter of waiters.c, and a waiter for several
 * keys has one request and a place in each key's queue. Every function is O(1) but for an owner's
 * own places.
 */
#ifndef LOCK_WAITQUEUE_H
#define LOCK_WAITQUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "hashmap.h"
#include "list.h"
#include "rules.h"

/* How a request treats those who wait already (rule 3). */
enum discipline {
    PLAIN,   /* looks at the holds only: may barge in when the lock happens to be free */
    ORDERED, /* also waits behind every waiter ahead of it that it conflicts with */
    FAIR     /* likewise, and its place is kept in keys: one for each owner */
};

struct request {
    const char *owner; /* owner_length bytes, the requester's */
    size_t owner_length;
    enum lockMode mode;
    enum discipline discipline;
};

struct waitqueue;

struct place {
    struct link in_queue;
    struct mapEntry by_owner;
    struct waitqueue *queue; /* NULL while it stands in none */
    struct request *request;
};

/* All zero is an empty queue. An empty queue owns no memory. */
struct waitqueue {
    struct list places;
    struct map by_owner;
    size_t by_mode[MODE_COUNT];
};

/* Puts `place` at the end, for `request`, which must outlive its stay. */
void waitqueueAdd(struct waitqueue *queue, struct place *place, struct request *request);

/* Puts `place` at the head, for an upgrade. */
void waitqueueAddFirst(struct waitqueue *queue, struct place *place, struct request *request);

/* Takes the place out of its queue. */
void waitqueueRemove(struct place *place);

/* Moves a place that stands in its queue to the head of it: its owner has come by a hold, so what
 * it waits for has become an upgrade. */
void waitqueueMoveFirst(struct place *place);

/* `place`, which stands in no queue, takes the place of `old`, which then stands in none. */
void waitqueueTakeOver(struct place *old, struct place *place, struct request *request);

/* The place at the head, or NULL. */
struct place *waitqueueFirst(const struct waitqueue *queue);

/* The place behind this one, or NULL. */
struct place *waitqueueNext(const struct place *place);

/* A place of this owner, or NULL. An owner may have several, on several connections. */
struct place *waitqueueOfOwner(const struct waitqueue *queue, const char *owner, size_t length);

/* Another place of the same owner in the same queue, or NULL after the last. */
struct place *waitqueueNextOfOwner(const struct place *place);

/* Whether anybody other than the requester waits here for a mode that conflicts with the
 * request's: then an ordered newcomer has to stand behind. */
bool waitqueueBlocks(const struct waitqueue *queue, const struct request *request);

#endif
