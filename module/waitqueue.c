/* See waitqueue.h. */
#include "waitqueue.h"

static struct place *fromLink(struct link *link) {
    return link ? LIST_ELEMENT(link, struct place, in_queue) : NULL;
}

static struct place *fromEntry(struct mapEntry *entry) {
    return entry ? LIST_ELEMENT(entry, struct place, by_owner) : NULL;
}

static void insertBefore(struct waitqueue *queue, struct link *successor, struct place *place,
                         struct request *request) {
    place->queue = queue;
    place->request = request;
    listInsertBefore(&queue->places, successor, &place->in_queue);
    mapAdd(&queue->by_owner, &place->by_owner, request->owner, request->owner_length);
    queue->by_mode[request->mode]++;
}

void waitqueueAdd(struct waitqueue *queue, struct place *place, struct request *request) {
    insertBefore(queue, NULL, place, request);
}

void waitqueueAddFirst(struct waitqueue *queue, struct place *place, struct request *request) {
    insertBefore(queue, queue->places.first, place, request);
}

void waitqueueRemove(struct place *place) {
    struct waitqueue *queue = place->queue;
    listRemove(&queue->places, &place->in_queue);
    mapRemove(&queue->by_owner, &place->by_owner);
    queue->by_mode[place->request->mode]--;
    place->queue = NULL;
}

void waitqueueTakeOver(struct place *old, struct place *place, struct request *request) {
    insertBefore(old->queue, &old->in_queue, place, request);
    waitqueueRemove(old);
}

void waitqueueMoveFirst(struct place *place) {
    struct list *places = &place->queue->places;
    listRemove(places, &place->in_queue);
    listInsertBefore(places, places->first, &place->in_queue);
}

struct place *waitqueueFirst(const struct waitqueue *queue) {
    return fromLink(queue->places.first);
}

struct place *waitqueueNext(const struct place *place) {
    return fromLink(place->in_queue.next);
}

struct place *waitqueueOfOwner(const struct waitqueue *queue, const char *owner, size_t length) {
    return fromEntry(mapFind(&queue->by_owner, owner, length));
}

struct place *waitqueueNextOfOwner(const struct place *place) {
    return fromEntry(mapFindNext(&place->by_owner));
}

bool waitqueueBlocks(const struct waitqueue *queue, const struct request *request) {
    size_t conflicting = 0;
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        if (rulesConflict(request->mode, (enum lockMode)mode)) {
            conflicting += queue->by_mode[mode];
        }
    }
    struct place *own = waitqueueOfOwner(queue, request->owner, request->owner_length);
    for (; own && conflicting > 0; own = waitqueueNextOfOwner(own)) {
        if (rulesConflict(request->mode, own->request->mode)) {
            conflicting--;
        }
    }
    return conflicting > 0;
}
