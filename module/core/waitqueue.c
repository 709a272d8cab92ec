/* See waitqueue.h. */
#include "core/waitqueue.h"

#include <assert.h>

static struct position *fromLink(struct link *link) {
    return link ? LIST_ELEMENT(link, struct position, in_queue) : NULL;
}

static struct position *fromEntry(struct mapEntry *entry) {
    return entry ? LIST_ELEMENT(entry, struct position, by_owner) : NULL;
}

static bool isWriter(const struct position *position) {
    return rulesConflict(position->request->mode, MODE_READ);
}

/* The link of the first writer's position at or behind this one, or NULL. */
static struct link *firstWriterFrom(struct position *position) {
    while (position && !isWriter(position)) {
        position = waitqueueNext(position);
    }
    return position ? &position->in_writers : NULL;
}

/* Where a position is to stand: before these, NULL being the end, and with what order. */
struct spot {
    struct link *successor, *successor_of_writer;
    int64_t order;
};

static void insert(struct waitqueue *queue, struct position *position, struct request *request,
                   const struct spot *spot) {
    assert(!position->queue); /* it stands in one queue at a time */
    position->queue = queue;
    position->request = request;
    position->order = spot->order;
    listInsertBefore(&queue->positions, spot->successor, &position->in_queue);
    if (isWriter(position)) {
        listInsertBefore(&queue->writers, spot->successor_of_writer, &position->in_writers);
    }
    listAddLast(&request->positions, &position->of_request);
    mapAdd(&queue->by_owner, &position->by_owner, request->owner, request->owner_length);
    queue->by_mode[request->mode]++;
    queue->multikey += request->discipline == MULTIKEY;
    queue->once += request->once;
}

static int64_t orderBeforeFirst(const struct waitqueue *queue) {
    struct position *first = waitqueueFirst(queue);
    return first ? first->order - 1 : 0;
}

static int64_t orderBehindLast(const struct waitqueue *queue) {
    struct position *last = fromLink(queue->positions.last);
    return last ? last->order + 1 : 0;
}

void waitqueueAdd(struct waitqueue *queue, struct position *position, struct request *request) {
    const struct spot end = {NULL, NULL, orderBehindLast(queue)};
    insert(queue, position, request, &end);
}

void waitqueueAddFirst(struct waitqueue *queue, struct position *position,
                       struct request *request) {
    const struct spot head = {queue->positions.first, queue->writers.first,
                              orderBeforeFirst(queue)};
    insert(queue, position, request, &head);
}

void waitqueueRemove(struct position *position) {
    struct waitqueue *queue = position->queue;
    assert(queue && !position->is_tie); /* it has left the graph before */
    listRemove(&queue->positions, &position->in_queue);
    if (isWriter(position)) {
        listRemove(&queue->writers, &position->in_writers);
    }
    listRemove(&position->request->positions, &position->of_request);
    mapRemove(&queue->by_owner, &position->by_owner);
    queue->by_mode[position->request->mode]--;
    queue->multikey -= position->request->discipline == MULTIKEY;
    queue->once -= position->request->once;
    position->queue = NULL;
}

void waitqueueTakeOver(struct position *old, struct position *position, struct request *request) {
    const struct spot same = {&old->in_queue, firstWriterFrom(old), old->order};
    insert(old->queue, position, request, &same);
    waitqueueRemove(old);
}

void waitqueueMoveFirst(struct position *position) {
    struct list *positions = &position->queue->positions, *writers = &position->queue->writers;
    position->order = orderBeforeFirst(position->queue);
    listRemove(positions, &position->in_queue);
    listInsertBefore(positions, positions->first, &position->in_queue);
    if (isWriter(position)) {
        listRemove(writers, &position->in_writers);
        listInsertBefore(writers, writers->first, &position->in_writers);
    }
}

struct position *waitqueueFirst(const struct waitqueue *queue) {
    return fromLink(queue->positions.first);
}

struct position *waitqueueNext(const struct position *position) {
    return fromLink(position->in_queue.next);
}

static struct position *fromWriter(struct link *link) {
    return link ? LIST_ELEMENT(link, struct position, in_writers) : NULL;
}

struct position *waitqueueLastWriter(const struct waitqueue *queue) {
    return fromWriter(queue->writers.last);
}

struct position *waitqueueWriterBefore(const struct position *position) {
    return fromWriter(position->in_writers.prev);
}

static struct position *ofRequest(struct link *link) {
    return link ? LIST_ELEMENT(link, struct position, of_request) : NULL;
}

struct position *waitqueueFirstOf(const struct request *request) {
    return ofRequest(request->positions.first);
}

struct position *waitqueueNextOf(const struct position *position) {
    return ofRequest(position->of_request.next);
}

struct position *waitqueueOfOwner(const struct waitqueue *queue, const char *owner, size_t length) {
    return fromEntry(mapFind(&queue->by_owner, owner, length));
}

struct position *waitqueueNextOfOwner(const struct position *position) {
    return fromEntry(mapFindNext(&position->by_owner));
}

/* Whether a newcomer who asks for this stands behind one who waits for that. */
static bool standsBehind(const struct request *newcomer, const struct request *waiting) {
    if (newcomer->discipline == PLAIN) {
        return waiting->discipline == MULTIKEY;
    }
    return rulesStandsBehind(newcomer->mode, waiting->mode);
}

/* How many positions there are that the newcomer stands behind, its owner's own included. */
static size_t countAhead(const struct waitqueue *queue, const struct request *newcomer) {
    if (newcomer->discipline == PLAIN) {
        return queue->multikey;
    }
    size_t count = 0;
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        if (rulesStandsBehind(newcomer->mode, (enum lockMode)mode)) {
            count += queue->by_mode[mode];
        }
    }
    return count;
}

bool waitqueueBlocks(const struct waitqueue *queue, const struct request *request) {
    size_t ahead = countAhead(queue, request);
    if (ahead == 0 || request->mode == MODE_SEMAPHORE) {
        return ahead > 0; /* for permits an owner stands behind itself too */
    }
    struct position *own = waitqueueOfOwner(queue, request->owner, request->owner_length);
    for (; own && ahead > 0; own = waitqueueNextOfOwner(own)) {
        ahead -= standsBehind(request, own->request);
    }
    return ahead > 0;
}
