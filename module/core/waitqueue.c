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
    first->own.by_mode[position->request->mode]++;
    first->own.multikey += position->request->discipline == MULTIKEY;
}

static void countOwnOut(struct position *position) {
    struct position *first = firstOfSameOwner(position);
    first->own.by_mode[position->request->mode]--;
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

/* Where a position is inserted: before these, or at the end if they are NULL; and its order. */
struct spot {
    struct link *successor, *successor_of_writer;
    struct position *successor_of_owner;
    int64_t order;
};

static void waitqueueInsert(struct waitqueue *queue, struct position *position,
                            struct waitRequest *request, const struct spot *spot) {
    assert(!position->queue); /* a position is in one queue at a time */
    position->queue = queue;
    position->request = request;
    position->order = spot->order;
    listInsertBefore(&queue->positions, spot->successor, &position->in_queue);
    if (waitqueueIsWriter(position)) {
        listInsertBefore(&queue->writers, spot->successor_of_writer, &position->in_writers);
    }
    listAddLast(&request->positions, &position->of_request);
    addOwn(position, spot->successor_of_owner);
    queue->by_mode[request->mode]++;
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

void waitqueueAdd(struct waitqueue *queue, struct position *position, struct waitRequest *request) {
    const struct spot end = {NULL, NULL, NULL, orderBehindLast(queue)};
    waitqueueInsert(queue, position, request, &end);
}

void waitqueueAddFirst(struct waitqueue *queue, struct position *position,
                       struct waitRequest *request) {
    const struct spot head = {queue->positions.first, queue->writers.first,
                              waitqueueOfOwner(queue, request->owner, request->owner_length),
                              orderBeforeFirst(queue)};
    waitqueueInsert(queue, position, request, &head);
}

void waitqueueRemove(struct position *position) {
    struct waitqueue *queue = position->queue;
    assert(queue && !position->is_tie); /* it must have left the graph before */
    listRemove(&queue->positions, &position->in_queue);
    if (waitqueueIsWriter(position)) {
        listRemove(&queue->writers, &position->in_writers);
    }
    listRemove(&position->request->positions, &position->of_request);
    removeOwn(position);
    queue->by_mode[position->request->mode]--;
    queue->multikey -= position->request->discipline == MULTIKEY;
    queue->once -= position->request->once;
    position->queue = NULL;
}

void waitqueueTakeOver(struct position *old, struct position *position,
                       struct waitRequest *request) {
    const struct spot same = {&old->in_queue, firstWriterFrom(old), old, old->order};
    waitqueueInsert(old->queue, position, request, &same);
    waitqueueRemove(old);
}

static void moveOwnFirst(struct position *position) {
    struct position *first = firstOfSameOwner(position);
    if (first != position) {
        removeOwn(position);
        addOwn(position, first);
    }
}

void waitqueueMoveFirst(struct position *position) {
    struct list *positions = &position->queue->positions, *writers = &position->queue->writers;
    position->order = orderBeforeFirst(position->queue);
    listRemove(positions, &position->in_queue);
    listInsertBefore(positions, positions->first, &position->in_queue);
    if (waitqueueIsWriter(position)) {
        listRemove(writers, &position->in_writers);
        listInsertBefore(writers, writers->first, &position->in_writers);
    }
    moveOwnFirst(position);
}

static struct position *fromWriter(struct link *link) {
    return LIST_ELEMENT_OR_NULL(link, struct position, in_writers);
}

struct position *waitqueueLastWriter(const struct waitqueue *queue) {
    return fromWriter(queue->writers.last);
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
static bool standsBehindOthers(const struct waitqueue *queue, const struct waitRequest *newcomer,
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
bool waitqueueBlocks(const struct waitqueue *queue, const struct waitRequest *request) {
    bool is_behind = standsBehindOthers(queue, request, &none);
    if (!is_behind || request->mode == MODE_SEMAPHORE) {
        return is_behind; /* for permits an owner waits behind itself too */
    }
    return standsBehindOthers(queue, request, ownOf(queue, request->owner, request->owner_length));
}
