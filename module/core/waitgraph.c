/* See waitgraph.h. */
#include "core/waitgraph.h"

#include <assert.h>

static struct waitRequest *waitgraphFromEntry(struct mapEntry *entry) {
    return LIST_ELEMENT_OR_NULL(entry, struct waitRequest, by_requester);
}

static struct position *fromTie(struct link *link) {
    return LIST_ELEMENT_OR_NULL(link, struct position, in_ties);
}

size_t waitgraphSize(const struct waitgraph *graph) {
    return graph->by_owner.used;
}

struct waitRequest *waitgraphFirstOf(const struct waitgraph *graph, const char *owner,
                                     size_t length) {
    return waitgraphFromEntry(mapFind(&graph->by_owner, owner, length));
}

struct waitRequest *waitgraphNextOf(const struct waitRequest *request) {
    return waitgraphFromEntry(mapFindNext(&request->by_requester));
}

/* ---- walks ---- */

static struct waitqueue *fromWaited(struct link *link) {
    return LIST_ELEMENT_OR_NULL(link, struct waitqueue, in_waited);
}

static struct waitRequest *fromList(struct link *link) {
    return LIST_ELEMENT_OR_NULL(link, struct waitRequest, in_list);
}

void waitgraphWalkTies(struct waitgraph *graph, const struct waitqueue *queue) {
    graph->next.tie = fromTie(queue->ties.last);
}

struct position *waitgraphNextTie(struct waitgraph *graph) {
    struct position *tie = graph->next.tie;
    if (tie) {
        graph->next.tie = fromTie(tie->in_ties.prev);
    }
    return tie;
}

void waitgraphWalkRequests(struct waitgraph *graph) {
    graph->next.request = fromList(graph->requests.first);
}

static void passRequest(struct waitgraph *graph) {
    graph->next.request = fromList(graph->next.request->in_list.next);
}

struct waitRequest *waitgraphNextRequest(struct waitgraph *graph) {
    while (graph->next.request && graph->next.request->is_copy) {
        passRequest(graph);
    }
    struct waitRequest *request = graph->next.request;
    if (request) {
        passRequest(graph);
    }
    return request;
}

void waitgraphWalkWaited(struct waitgraph *graph) {
    graph->next.waited = fromWaited(graph->waited.first);
}

struct waitqueue *waitgraphNextWaited(struct waitgraph *graph) {
    struct waitqueue *queue = graph->next.waited;
    if (queue) {
        graph->next.waited = fromWaited(queue->in_waited.next);
    }
    return queue;
}

/* ---- copies ---- */

/* Whether the request waits for exactly what the other, of the same owner, waits for. One that
 * waits for a lock in another mode does not: it counts at the owner's first position, in its own
 * mode. */
static bool repeats(const struct waitRequest *request, const struct waitRequest *other) {
    if (request->positions.length != other->positions.length ||
        (request->discipline == MULTIKEY) != (other->discipline == MULTIKEY)) {
        return false;
    }
    const struct position *position = waitqueueFirstOf(request), *like = waitqueueFirstOf(other);
    while (position && position->queue == like->queue && position->mode == like->mode) {
        position = waitqueueNextOf(position);
        like = waitqueueNextOf(like);
    }
    return !position;
}

/* ---- ties ---- */

static void tie(struct waitRequest *request) {
    if (request->is_copy) {
        return;
    }
    for (struct position *position = waitqueueFirstOf(request); position;
         position = waitqueueNextOf(position)) {
        if (!position->is_tie) {
            position->is_tie = true;
            listAddLast(&position->queue->ties, &position->in_ties);
        }
    }
}

static void untie(struct waitgraph *graph, struct waitRequest *request) {
    for (struct position *position = waitqueueFirstOf(request); position;
         position = waitqueueNextOf(position)) {
        if (graph->next.tie == position) {
            waitgraphNextTie(graph);
        }
        if (position->is_tie) {
            position->is_tie = false;
            listRemove(&position->queue->ties, &position->in_ties);
        }
    }
}

/* Whether the owner's requests are ties: all are, except copies, or none. */
static bool isTied(const struct waitRequest *first) {
    return waitqueueFirstOf(first)->is_tie;
}

/* Whether this is the owner's only request, and for one key. */
static bool isAlone(const struct waitRequest *first) {
    return first->positions.length == 1 && !waitgraphNextOf(first);
}

static void tieFrom(struct waitRequest *first) {
    for (struct waitRequest *request = first; request; request = waitgraphNextOf(request)) {
        tie(request);
    }
}

/* Makes ties of the owner's requests if the new one waits for something else than the older
 * ones. */
static void tieIfElsewhere(const struct waitgraph *graph, struct waitRequest *request) {
    struct waitRequest *first = waitgraphFirstOf(graph, request->owner, request->owner_length);
    if (request->positions.length > 1 || isTied(first)) {
        tieFrom(isTied(first) ? request : first);
    } else if (first != request && !repeats(request, first)) {
        tieFrom(first);
    }
}

/* ---- entering and leaving ---- */

static void countIn(struct waitgraph *graph, struct waitRequest *request) {
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

static void countOut(struct waitgraph *graph, struct waitRequest *request) {
    for (struct position *position = waitqueueFirstOf(request); position;
         position = waitqueueNextOf(position)) {
        struct waitqueue *queue = position->queue;
        if (--queue->in_graph == 0) {
            if (graph->next.waited == queue) {
                waitgraphNextWaited(graph);
            }
            listRemove(&graph->waited, &queue->in_waited);
        }
    }
}

void waitgraphAnnounce(struct waitgraph *graph, struct waitRequest *request) {
    request->is_newcomer = true;
    listAddLast(&graph->newcomers, &request->in_list);
}

struct waitRequest *waitgraphFirstNewcomer(const struct waitgraph *graph) {
    return fromList(graph->newcomers.first);
}

/* `graph_end` may be that of a request that has left. Then it is corrected for the next call. */
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

static void forgetNewcomer(struct waitgraph *graph, struct waitRequest *request) {
    request->is_newcomer = false;
    listRemove(&graph->newcomers, &request->in_list);
}

void waitgraphEnter(struct waitgraph *graph, struct waitRequest *request) {
    assert(waitqueueFirstOf(request) && !waitgraphHas(request));
    if (request->is_newcomer) {
        forgetNewcomer(graph, request);
    }
    mapAddLike(&graph->by_owner, &request->by_requester, &waitqueueFirstOf(request)->by_owner);
    listAddLast(&graph->requests, &request->in_list);
    const struct waitRequest *older = waitgraphFromEntry(request->by_requester.older);
    request->is_copy = older && repeats(request, older);
    countIn(graph, request);
    tieIfElsewhere(graph, request);
}

/* The oldest copy of the request takes its place. */
static void leaveToCopy(struct waitRequest *request) {
    struct waitRequest *heir = waitgraphNextOf(request);
    if (!request->is_copy && heir && heir->is_copy) {
        heir->is_copy = false;
        if (isTied(request)) {
            tie(heir);
        }
    }
}

static void waitgraphTakeOut(struct waitgraph *graph, struct waitRequest *request) {
    if (graph->next.request == request) {
        passRequest(graph);
    }
    listRemove(&graph->requests, &request->in_list);
    mapRemove(&graph->by_owner, &request->by_requester);
    request->by_requester.key = NULL;
    request->is_copy = false;
}

void waitgraphLeave(struct waitgraph *graph, struct waitRequest *request) {
    if (request->is_newcomer) {
        forgetNewcomer(graph, request);
    }
    if (!waitgraphHas(request)) {
        return;
    }
    bool was_alone = mapIsAlone(&request->by_requester);
    if (!was_alone) {
        leaveToCopy(request);
    }
    untie(graph, request);
    countOut(graph, request);
    waitgraphTakeOut(graph, request);
    struct waitRequest *first =
        was_alone ? NULL : waitgraphFirstOf(graph, request->owner, request->owner_length);
    if (first && isAlone(first)) {
        untie(graph, first);
    }
}

/* ---- requests from which no search is needed ---- */

/* If an owner already has this many requests in a queue, in a mode at least as strong, one more
 * adds nothing: of its positions the first counts. It is more than one, because a cycle that was
 * closed by something other than a wait is found when an owner in it makes one of its requests
 * again. */
#define ENOUGH_PLACES 16

static bool asksForNoLess(const struct position *position, const struct position *own) {
    const struct waitRequest *request = position->request;
    return waitgraphHas(request) && request->discipline != MULTIKEY &&
           (position->mode == own->mode || rulesConflict(position->mode, MODE_READ));
}

/* Whether its owner's first ENOUGH_PLACES positions here are ahead of it. */
static bool standsBehindOwn(const struct waitRequest *newcomer, const struct position *own) {
    int count = 0;
    const struct position *position =
        waitqueueOfOwner(own->queue, newcomer->owner, newcomer->owner_length);
    while (position && position->order < own->order && count < ENOUGH_PLACES &&
           asksForNoLess(position, own)) {
        position = waitqueueNextOfOwner(position);
        count++;
    }
    return count == ENOUGH_PLACES;
}

/* Whether the next ENOUGH_PLACES positions behind it, with none in between, are its owner's: it is
 * an upgrade. */
static bool standsBeforeOwn(const struct waitRequest *newcomer, const struct position *own) {
    int count = 0;
    const struct position *position = waitqueueNext(own);
    while (position && count < ENOUGH_PLACES && waitqueueSameOwner(position->request, newcomer) &&
           asksForNoLess(position, own)) {
        position = waitqueueNext(position);
        count++;
    }
    return count == ENOUGH_PLACES;
}

/* For a request for several keys: whether its owner's first ENOUGH_PLACES positions at one of them
 * belong to requests for the same keys. */
static bool repeatsOwn(const struct waitRequest *newcomer, const struct position *own) {
    int count = 0;
    const struct position *position =
        waitqueueOfOwner(own->queue, newcomer->owner, newcomer->owner_length);
    while (position && position != own && count < ENOUGH_PLACES &&
           waitgraphHas(position->request) &&
           (count > 0 ? position->request->is_copy : repeats(newcomer, position->request))) {
        position = waitqueueNextOfOwner(position);
        count++;
    }
    return count == ENOUGH_PLACES;
}

bool waitgraphAsksForNothingNew(const struct waitRequest *newcomer) {
    const struct position *own = waitqueueFirstOf(newcomer);
    return newcomer->discipline == MULTIKEY
               ? repeatsOwn(newcomer, own)
               : standsBehindOwn(newcomer, own) || standsBeforeOwn(newcomer, own);
}
