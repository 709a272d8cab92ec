/* See waitgraph.h. */
#include "core/waitgraph.h"

#include <assert.h>

static struct request *fromEntry(struct mapEntry *entry) {
    return entry ? LIST_ELEMENT(entry, struct request, by_requester) : NULL;
}

static struct position *fromTie(struct link *link) {
    return link ? LIST_ELEMENT(link, struct position, in_ties) : NULL;
}

size_t waitgraphSize(const struct waitgraph *graph) {
    return graph->by_owner.used;
}

bool waitgraphHas(const struct request *request) {
    return request->by_requester.key;
}

struct request *waitgraphFirstOf(const struct waitgraph *graph, const char *owner, size_t length) {
    return fromEntry(mapFind(&graph->by_owner, owner, length));
}

struct request *waitgraphNextOf(const struct request *request) {
    return fromEntry(mapFindNext(&request->by_requester));
}

/* ---- ties ---- */

struct position *waitgraphLastTie(const struct waitqueue *queue) {
    return fromTie(queue->ties.last);
}

struct position *waitgraphTieBefore(const struct position *position) {
    return fromTie(position->in_ties.prev);
}

static void tie(struct request *request) {
    for (struct position *position = waitqueueFirstOf(request); position;
         position = waitqueueNextOf(position)) {
        if (!position->is_tie) {
            position->is_tie = true;
            listAddLast(&position->queue->ties, &position->in_ties);
        }
    }
}

static void untie(struct request *request) {
    for (struct position *position = waitqueueFirstOf(request); position;
         position = waitqueueNextOf(position)) {
        if (position->is_tie) {
            position->is_tie = false;
            listRemove(&position->queue->ties, &position->in_ties);
        }
    }
}

/* The owner's only request, if it has but one, and that stands in one queue; or NULL. */
static struct request *onlyOf(const struct waitgraph *graph, const char *owner, size_t length) {
    struct request *only = waitgraphFirstOf(graph, owner, length);
    return only && !waitgraphNextOf(only) && only->positions.length == 1 ? only : NULL;
}

/* Of one owner all requests are ties, or none. */
static bool isTied(const struct request *request) {
    return waitqueueFirstOf(request)->is_tie;
}

static void tieFrom(struct request *first) {
    for (struct request *request = first; request; request = waitgraphNextOf(request)) {
        tie(request);
    }
}

struct request *waitgraphTieAll(const struct waitgraph *graph, const char *owner, size_t length) {
    struct request *first = waitgraphFirstOf(graph, owner, length);
    if (!first || isTied(first)) {
        return NULL;
    }
    tieFrom(first);
    return first;
}

void waitgraphUntieAll(struct request *first) {
    for (struct request *request = first; request; request = waitgraphNextOf(request)) {
        untie(request);
    }
}

/* ---- coming and going ---- */

static struct waitqueue *fromWaited(struct link *link) {
    return link ? LIST_ELEMENT(link, struct waitqueue, in_waited) : NULL;
}

struct waitqueue *waitgraphFirstWaited(const struct waitgraph *graph) {
    return fromWaited(graph->waited.first);
}

struct waitqueue *waitgraphNextWaited(const struct waitqueue *queue) {
    return fromWaited(queue->in_waited.next);
}

static void countIn(struct waitgraph *graph, struct request *request) {
    for (struct position *position = waitqueueFirstOf(request); position;
         position = waitqueueNextOf(position)) {
        struct waitqueue *queue = position->queue;
        if (queue->in_graph++ == 0) {
            listAddLast(&graph->waited, &queue->in_waited);
        }
        if (position->order >= queue->graph_end) {
            queue->graph_end = position->order + 1;
        }
    }
}

static void countOut(struct waitgraph *graph, struct request *request) {
    for (struct position *position = waitqueueFirstOf(request); position;
         position = waitqueueNextOf(position)) {
        if (--position->queue->in_graph == 0) {
            listRemove(&graph->waited, &position->queue->in_waited);
        }
    }
}

/* Whether the request only repeats what the other waits for. For another mode it would not: its
 * position counts as standing where the owner's first position does. */
static bool repeats(const struct request *request, const struct request *other) {
    return request->positions.length == 1 && request->discipline != MULTIKEY &&
           other->discipline != MULTIKEY && request->mode == other->mode &&
           waitqueueFirstOf(request)->queue == waitqueueFirstOf(other)->queue;
}

/* Makes the new request a tie if its owner waits for something else too; and if that is because of
 * this request, all others of the owner. An owner may wait for one lock on thousands of connections:
 * they lead nowhere that one does not. */
static void tieIfElsewhere(const struct waitgraph *graph, struct request *request) {
    struct request *first = waitgraphFirstOf(graph, request->owner, request->owner_length);
    struct request *other = first == request ? waitgraphNextOf(first) : first;
    if (!other) {
        if (request->positions.length > 1) {
            tie(request);
        }
    } else if (isTied(other)) {
        tie(request);
    } else if (!repeats(request, other)) {
        tieFrom(first);
    }
}

void waitgraphAnnounce(struct waitgraph *graph, struct request *request) {
    request->is_newcomer = true;
    listAddLast(&graph->newcomers, &request->in_newcomers);
}

struct request *waitgraphFirstNewcomer(const struct waitgraph *graph) {
    struct link *first = graph->newcomers.first;
    return first ? LIST_ELEMENT(first, struct request, in_newcomers) : NULL;
}

/* The bound may be one of somebody who has left: then it is put right, for those who ask next. */
bool waitgraphIsLast(struct position *newcomer) {
    struct waitqueue *queue = newcomer->queue;
    if (newcomer->order >= queue->graph_end) {
        return true;
    }
    for (struct position *position = newcomer; position; position = waitqueueNext(position)) {
        if (waitgraphHas(position->request)) {
            return false;
        }
    }
    queue->graph_end = newcomer->order;
    return true;
}

static void forgetNewcomer(struct waitgraph *graph, struct request *request) {
    if (request->is_newcomer) {
        request->is_newcomer = false;
        listRemove(&graph->newcomers, &request->in_newcomers);
    }
}

void waitgraphEnter(struct waitgraph *graph, struct request *request) {
    assert(waitqueueFirstOf(request) && !waitgraphHas(request));
    forgetNewcomer(graph, request);
    mapAddLike(&graph->by_owner, &request->by_requester, &waitqueueFirstOf(request)->by_owner);
    countIn(graph, request);
    tieIfElsewhere(graph, request);
}

void waitgraphLeave(struct waitgraph *graph, struct request *request) {
    forgetNewcomer(graph, request);
    if (!waitgraphHas(request)) {
        return;
    }
    bool was_alone = mapIsAlone(&request->by_requester);
    untie(request);
    countOut(graph, request);
    mapRemove(&graph->by_owner, &request->by_requester);
    request->by_requester.key = NULL;
    struct request *only = was_alone ? NULL : onlyOf(graph, request->owner, request->owner_length);
    if (only) {
        untie(only);
    }
}

/* ---- what need not be searched from ---- */

/* An owner that waits here so many times already, and for no less, asks for nothing new: of its
 * positions the first counts. Not at the second time, as a cycle that has been closed by something
 * else than a wait is found when somebody in it asks once more. */
#define ENOUGH_PLACES 16

bool waitgraphAsksForNothingNew(const struct waitgraph *graph, const struct request *newcomer) {
    const struct position *own = waitqueueFirstOf(newcomer);
    const struct request *other = waitgraphFirstOf(graph, newcomer->owner, newcomer->owner_length);
    int count = 0;
    for (; other && count < ENOUGH_PLACES; other = waitgraphNextOf(other)) {
        const struct position *position = waitqueueFirstOf(other);
        bool is_no_less = other->mode == newcomer->mode || rulesConflict(other->mode, MODE_READ);
        if (position->queue != own->queue || position->order > own->order || !is_no_less ||
            other->discipline == MULTIKEY || newcomer->discipline == MULTIKEY) {
            break;
        }
        count++;
    }
    return count == ENOUGH_PLACES;
}
