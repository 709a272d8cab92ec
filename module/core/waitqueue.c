/* See waitqueue.h. */
#include "core/waitqueue.h"

#include <assert.h>
#include <string.h>

/* The link of the first writer at this position or behind it, or NULL. */
static struct link *firstWriterFrom(struct position *position) {
    while (position && !waitqueueIsWriter(position)) {
        position = waitqueueNext(position);
    }
    return position ? &position->in_writers : NULL;
}

/* ---- the positions of one owner, in queue order; the first of them has the counts ---- */

static struct position *firstOfSameOwner(struct position *position) {
    return mapIsAlone(&position->by_owner)
               ? position
               : waitqueueFromEntry(mapFindLike(&position->queue->by_owner, &position->by_owner));
}

static void waitqueueCountOwn(struct position *position) {
    struct position *first = firstOfSameOwner(position);
    if (first == position) {
        const struct position *next = waitqueueNextOfOwner(position);
        position->own = next ? next->own : (struct waitqueueOwn){0};
    }
    first->own.by_mode[position->mode]++;
    first->own.multikey += position->request->discipline == MULTIKEY;
}

static void countOwnOut(struct position *position) {
    struct position *first = firstOfSameOwner(position);
    first->own.by_mode[position->mode]--;
    first->own.multikey -= position->request->discipline == MULTIKEY;
    struct position *next = waitqueueNextOfOwner(position);
    if (first == position && next) {
        next->own = first->own;
    }
}

/* `successor` is the owner's next position behind this one, or NULL. */
static void addOwn(struct position *position, struct position *successor) {
    const struct waitRequest *request = position->request;
    struct map *by_owner = &position->queue->by_owner;
    if (successor) {
        mapAddBefore(by_owner, &position->by_owner, request->owner, &successor->by_owner);
    } else {
        mapAdd(by_owner, &position->by_owner, request->owner, request->owner_length);
    }
    waitqueueCountOwn(position);
}

static void removeOwn(struct position *position) {
    if (mapIsAlone(&position->by_owner)) {
        position->own = (struct waitqueueOwn){0};
    } else {
        countOwnOut(position);
    }
    mapRemove(&position->queue->by_owner, &position->by_owner);
}

/* ---- adding and removing ---- */

/* Where a position is inserted: before these, or at the end if they are NULL; its order, and its
 * mode. */
struct spot {
    struct link *successor, *successor_of_writer, *successor_of_candidate;
    struct position *successor_of_owner;
    int64_t order;
    enum lockMode mode;
};

static void waitqueueInsert(struct waitqueue *queue, struct position *position,
                            struct waitRequest *request, const struct spot *spot) {
    assert(!position->queue); /* a position is in one queue at a time */
    position->queue = queue;
    position->request = request;
    position->order = spot->order;
    position->mode = spot->mode;
    listInsertBefore(&queue->positions, spot->successor, &position->in_queue);
    if (waitqueueIsWriter(position)) {
        listInsertBefore(&queue->writers, spot->successor_of_writer, &position->in_writers);
    }
    listInsertBefore(&queue->candidates, spot->successor_of_candidate, &position->in_candidates);
    listAddLast(&request->positions, &position->of_request);
    addOwn(position, spot->successor_of_owner);
    queue->by_mode[position->mode]++;
    queue->multikey += request->discipline == MULTIKEY;
    queue->once += request->once;
}

static int64_t orderBeforeFirst(const struct waitqueue *queue) {
    struct position *first = waitqueueFirst(queue);
    return first ? first->order - 1 : 0;
}

static int64_t orderBehindLast(const struct waitqueue *queue) {
    struct position *last = waitqueueOfLink(queue->positions.last);
    return last ? last->order + 1 : 0;
}

void waitqueueAdd(struct waitqueue *queue, struct position *position, struct waitRequest *request,
                  enum lockMode mode) {
    const struct spot end = {.order = orderBehindLast(queue), .mode = mode};
    waitqueueInsert(queue, position, request, &end);
}

void waitqueueAddFirst(struct waitqueue *queue, struct position *position,
                       struct waitRequest *request, enum lockMode mode) {
    const struct spot head = {.successor = queue->positions.first,
                              .successor_of_writer = queue->writers.first,
                              .successor_of_candidate = queue->candidates.first,
                              .successor_of_owner =
                                  waitqueueOfOwner(queue, request->owner, request->owner_length),
                              .order = orderBeforeFirst(queue),
                              .mode = mode};
    waitqueueInsert(queue, position, request, &head);
}

void waitqueueRemove(struct position *position) {
    struct waitqueue *queue = position->queue;
    assert(queue && !position->is_tie); /* it must have left the graph before */
    listRemove(&queue->positions, &position->in_queue);
    if (waitqueueIsWriter(position)) {
        listRemove(&queue->writers, &position->in_writers);
    }
    if (!position->is_aside) {
        listRemove(&queue->candidates, &position->in_candidates);
    }
    position->is_aside = false;
    listRemove(&position->request->positions, &position->of_request);
    removeOwn(position);
    queue->by_mode[position->mode]--;
    queue->multikey -= position->request->discipline == MULTIKEY;
    queue->once -= position->request->once;
    position->queue = NULL;
}

void waitqueueTakeOver(struct position *old, struct position *position,
                       struct waitRequest *request) {
    assert(!old->is_aside);
    const struct spot same = {.successor = &old->in_queue,
                              .successor_of_writer = firstWriterFrom(old),
                              .successor_of_candidate = &old->in_candidates,
                              .successor_of_owner = old,
                              .order = old->order,
                              .mode = old->mode};
    waitqueueInsert(old->queue, position, request, &same);
    waitqueueRemove(old);
}

void waitqueueStandAside(struct position *position) {
    if (!position->is_aside) {
        listRemove(&position->queue->candidates, &position->in_candidates);
        position->is_aside = true;
    }
}

void waitqueueStandIn(struct position *position) {
    struct list *candidates = &position->queue->candidates;
    if (!position->is_aside) {
        return;
    }
    struct link *successor = NULL, *link = candidates->last;
    while (link && LIST_ELEMENT(link, struct position, in_candidates)->order > position->order) {
        successor = link;
        link = link->prev;
    }
    listInsertBefore(candidates, successor, &position->in_candidates);
    position->is_aside = false;
}

static void moveOwnFirst(struct position *position) {
    struct position *first = firstOfSameOwner(position);
    if (first != position) {
        removeOwn(position);
        addOwn(position, first);
    }
}

static void moveLinkFirst(struct list *list, struct link *link) {
    listRemove(list, link);
    listInsertBefore(list, list->first, link);
}

void waitqueueMoveFirst(struct position *position) {
    struct waitqueue *queue = position->queue;
    position->order = orderBeforeFirst(queue);
    moveLinkFirst(&queue->positions, &position->in_queue);
    if (waitqueueIsWriter(position)) {
        moveLinkFirst(&queue->writers, &position->in_writers);
    }
    if (!position->is_aside) {
        moveLinkFirst(&queue->candidates, &position->in_candidates);
    }
    moveOwnFirst(position);
}

static struct position *fromWriter(struct link *link) {
    return LIST_ELEMENT_OR_NULL(link, struct position, in_writers);
}

struct position *waitqueueLastWriter(const struct waitqueue *queue) {
    return fromWriter(queue->writers.last);
}

bool waitqueueStandsBehind(const struct position *position) {
    const struct position *first = position->mode == MODE_READ
                                       ? fromWriter(position->queue->writers.first)
                                       : waitqueueFirst(position->queue);
    return first && first->order < position->order;
}

struct position *waitqueueWriterBefore(const struct position *position) {
    return fromWriter(position->in_writers.prev);
}

bool waitqueueSameOwner(const struct waitRequest *one, const struct waitRequest *other) {
    return one->owner_length == other->owner_length &&
           memcmp(one->owner, other->owner, one->owner_length) == 0;
}

static const struct waitqueueOwn none;

static const struct waitqueueOwn *ownOf(const struct waitqueue *queue, const char *owner,
                                        size_t length) {
    const struct position *first = waitqueueOfOwner(queue, owner, length);
    return first ? &first->own : &none;
}

size_t waitqueueCountOf(const struct waitqueue *queue, const char *owner, size_t length) {
    const struct waitqueueOwn *own = ownOf(queue, owner, length);
    size_t count = 0;
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        count += own->by_mode[mode];
    }
    return count;
}

/* Whether the newcomer has to wait behind a position, not counting these positions of its owner. */
static bool standsBehindOthers(const struct waitqueue *queue,
                               const struct waitqueueNewcomer *newcomer,
                               const struct waitqueueOwn *own) {
    if (newcomer->discipline == PLAIN) {
        return queue->multikey > own->multikey;
    }
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        if (rulesStandsBehind(newcomer->mode, (enum lockMode)mode) &&
            queue->by_mode[mode] > own->by_mode[mode]) {
            return true;
        }
    }
    return false;
}

/* First as if the owner had no positions here, because to find those takes a lookup. */
bool waitqueueBlocks(const struct waitqueue *queue, const struct waitqueueNewcomer *newcomer) {
    bool is_behind = standsBehindOthers(queue, newcomer, &none);
    if (!is_behind || newcomer->mode == MODE_SEMAPHORE) {
        return is_behind; /* for permits an owner waits behind itself too */
    }
    return standsBehindOthers(queue, newcomer,
                              ownOf(queue, newcomer->owner, newcomer->owner_length));
}
