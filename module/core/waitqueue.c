/* See waitqueue.h. */
#include "core/waitqueue.h"

#include <assert.h>

static struct place *fromLink(struct link *link) {
    return link ? LIST_ELEMENT(link, struct place, in_queue) : NULL;
}

static struct place *fromEntry(struct mapEntry *entry) {
    return entry ? LIST_ELEMENT(entry, struct place, by_owner) : NULL;
}

static bool isWriter(const struct place *place) {
    return rulesConflict(place->request->mode, MODE_READ);
}

/* The link of the first writer's place at or behind this one, or NULL. */
static struct link *firstWriterFrom(struct place *place) {
    while (place && !isWriter(place)) {
        place = waitqueueNext(place);
    }
    return place ? &place->in_writers : NULL;
}

static void insertBefore(struct waitqueue *queue, struct link *successor,
                         struct link *successor_of_writer, struct place *place,
                         struct request *request, int64_t order) {
    assert(!place->queue); /* it stands in one queue at a time */
    place->queue = queue;
    place->request = request;
    place->order = order;
    listInsertBefore(&queue->places, successor, &place->in_queue);
    if (isWriter(place)) {
        listInsertBefore(&queue->writers, successor_of_writer, &place->in_writers);
    }
    listAddLast(&request->places, &place->of_request);
    mapAdd(&queue->by_owner, &place->by_owner, request->owner, request->owner_length);
    queue->by_mode[request->mode]++;
    queue->joint += request->discipline == JOINT;
}

static int64_t orderBeforeFirst(const struct waitqueue *queue) {
    struct place *first = waitqueueFirst(queue);
    return first ? first->order - 1 : 0;
}

static int64_t orderBehindLast(const struct waitqueue *queue) {
    struct place *last = fromLink(queue->places.last);
    return last ? last->order + 1 : 0;
}

void waitqueueAdd(struct waitqueue *queue, struct place *place, struct request *request) {
    insertBefore(queue, NULL, NULL, place, request, orderBehindLast(queue));
}

void waitqueueAddFirst(struct waitqueue *queue, struct place *place, struct request *request) {
    insertBefore(queue, queue->places.first, queue->writers.first, place, request,
                 orderBeforeFirst(queue));
}

void waitqueueRemove(struct place *place) {
    struct waitqueue *queue = place->queue;
    assert(queue && !place->is_tie); /* it has left the graph before */
    listRemove(&queue->places, &place->in_queue);
    if (isWriter(place)) {
        listRemove(&queue->writers, &place->in_writers);
    }
    listRemove(&place->request->places, &place->of_request);
    mapRemove(&queue->by_owner, &place->by_owner);
    queue->by_mode[place->request->mode]--;
    queue->joint -= place->request->discipline == JOINT;
    place->queue = NULL;
}

void waitqueueTakeOver(struct place *old, struct place *place, struct request *request) {
    insertBefore(old->queue, &old->in_queue, firstWriterFrom(old), place, request, old->order);
    waitqueueRemove(old);
}

void waitqueueMoveFirst(struct place *place) {
    struct list *places = &place->queue->places, *writers = &place->queue->writers;
    place->order = orderBeforeFirst(place->queue);
    listRemove(places, &place->in_queue);
    listInsertBefore(places, places->first, &place->in_queue);
    if (isWriter(place)) {
        listRemove(writers, &place->in_writers);
        listInsertBefore(writers, writers->first, &place->in_writers);
    }
}

struct place *waitqueueFirst(const struct waitqueue *queue) {
    return fromLink(queue->places.first);
}

struct place *waitqueueNext(const struct place *place) {
    return fromLink(place->in_queue.next);
}

static struct place *fromWriter(struct link *link) {
    return link ? LIST_ELEMENT(link, struct place, in_writers) : NULL;
}

struct place *waitqueueLastWriter(const struct waitqueue *queue) {
    return fromWriter(queue->writers.last);
}

struct place *waitqueueWriterBefore(const struct place *place) {
    return fromWriter(place->in_writers.prev);
}

static struct place *ofRequest(struct link *link) {
    return link ? LIST_ELEMENT(link, struct place, of_request) : NULL;
}

struct place *waitqueueFirstOf(const struct request *request) {
    return ofRequest(request->places.first);
}

struct place *waitqueueNextOf(const struct place *place) {
    return ofRequest(place->of_request.next);
}

struct place *waitqueueOfOwner(const struct waitqueue *queue, const char *owner, size_t length) {
    return fromEntry(mapFind(&queue->by_owner, owner, length));
}

struct place *waitqueueNextOfOwner(const struct place *place) {
    return fromEntry(mapFindNext(&place->by_owner));
}

/* Whether a newcomer who asks for this stands behind one who waits for that. */
static bool standsBehind(const struct request *newcomer, const struct request *waiting) {
    if (newcomer->discipline == PLAIN) {
        return waiting->discipline == JOINT;
    }
    return rulesConflict(newcomer->mode, waiting->mode);
}

/* How many places there are that the newcomer stands behind, its owner's own included. */
static size_t countAhead(const struct waitqueue *queue, const struct request *newcomer) {
    if (newcomer->discipline == PLAIN) {
        return queue->joint;
    }
    size_t count = 0;
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        if (rulesConflict(newcomer->mode, (enum lockMode)mode)) {
            count += queue->by_mode[mode];
        }
    }
    return count;
}

bool waitqueueBlocks(const struct waitqueue *queue, const struct request *request) {
    size_t ahead = countAhead(queue, request);
    if (ahead == 0) {
        return false;
    }
    struct place *own = waitqueueOfOwner(queue, request->owner, request->owner_length);
    for (; own && ahead > 0; own = waitqueueNextOfOwner(own)) {
        ahead -= standsBehind(request, own->request);
    }
    return ahead > 0;
}
