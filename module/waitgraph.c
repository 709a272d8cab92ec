/* See waitgraph.h.
 *
 * The search goes breadth first, so the circle that it finds is a shortest one. It starts from what
 * the asker is going to wait for, and never from waits that the asker has already: a circle through
 * those alone would have been refused when they began.
 */
#include "waitgraph.h"

#include <string.h>

#include "mem.h"

static struct request *fromEntry(struct mapEntry *entry) {
    return entry ? LIST_ELEMENT(entry, struct request, by_requester) : NULL;
}

static struct place *ofRequest(struct link *link) {
    return link ? LIST_ELEMENT(link, struct place, of_request) : NULL;
}

static struct place *nextOfRequest(const struct place *place) {
    return ofRequest(place->of_request.next);
}

static struct place *fromTie(struct link *link) {
    return link ? LIST_ELEMENT(link, struct place, in_ties) : NULL;
}

/* A request of this owner, the same one each time as long as none comes or goes. */
static struct request *firstOfOwner(const struct waitgraph *graph, const char *owner,
                                    size_t length) {
    return fromEntry(mapFind(&graph->by_owner, owner, length));
}

static struct request *nextOfOwner(const struct request *request) {
    return fromEntry(mapFindNext(&request->by_requester));
}

/* ---- who waits where ---- */

static bool isIn(const struct request *request) {
    return request->by_requester.key;
}

static void tie(struct request *request) {
    for (struct place *place = ofRequest(request->places.first); place;
         place = nextOfRequest(place)) {
        if (!place->is_tie) {
            place->is_tie = true;
            listAddLast(&place->queue->ties, &place->in_ties);
        }
    }
}

static void untie(struct request *request) {
    for (struct place *place = ofRequest(request->places.first); place;
         place = nextOfRequest(place)) {
        if (place->is_tie) {
            place->is_tie = false;
            listRemove(&place->queue->ties, &place->in_ties);
        }
    }
}

/* Whether the first request of its owner is its only one, and stands in one queue. */
static bool isOnlyPlace(const struct request *first) {
    return !nextOfOwner(first) && first->places.length == 1;
}

/* The owner's only request, if it has one, and that stands in one queue: it ties nothing, unless
 * the owner begins to wait elsewhere. */
static struct request *onlyPlaceOf(const struct waitgraph *graph, const char *owner,
                                   size_t length) {
    struct request *only = firstOfOwner(graph, owner, length);
    return only && isOnlyPlace(only) ? only : NULL;
}

static void countPlaces(struct request *request, bool come) {
    for (struct place *place = ofRequest(request->places.first); place;
         place = nextOfRequest(place)) {
        place->queue->in_graph += come ? 1 : (size_t)-1;
    }
}

void waitgraphEnter(struct waitgraph *graph, struct request *request) {
    struct request *only = onlyPlaceOf(graph, request->owner, request->owner_length);
    if (only) {
        tie(only);
    }
    mapAdd(&graph->by_owner, &request->by_requester, request->owner, request->owner_length);
    countPlaces(request, true);
    if (!onlyPlaceOf(graph, request->owner, request->owner_length)) {
        tie(request);
    }
}

void waitgraphLeave(struct waitgraph *graph, struct request *request) {
    if (!isIn(request)) {
        return;
    }
    untie(request);
    countPlaces(request, false);
    mapRemove(&graph->by_owner, &request->by_requester);
    request->by_requester.key = NULL;
    struct request *only = onlyPlaceOf(graph, request->owner, request->owner_length);
    if (only) {
        untie(only);
    }
}

size_t waitgraphSize(const struct waitgraph *graph) {
    return graph->by_owner.used;
}

/* ---- the search ---- */

/* An owner that the asker would wait for, and how the search came to it. */
struct reached {
    struct request *first;   /* of its requests; of the asker NULL */
    size_t from;             /* who waits for it: an index */
    struct waitqueue *queue; /* where */
    bool behind;
};

#define REACHED_AT_FIRST 16

struct waitgraphSearch {
    struct waitgraph *graph;
    const struct request *asker;
    waitgraphHolders holders;
    void *context;
    bool asker_stands; /* has a place somewhere already, or may have one without a client */
    size_t steps_left;
    enum waitgraphResult result;
    /* What is being looked at: owner number `from`, as it waits in `queue`. */
    size_t from;
    struct waitqueue *queue;
    bool behind;
    struct reached *reached;
    size_t count, room;
    struct reached few[REACHED_AT_FIRST];
};

static bool goesOn(const struct waitgraphSearch *search) {
    return search->result == WAITGRAPH_NO_CIRCLE;
}

static void note(struct waitgraphSearch *search, struct request *first) {
    if (search->count == search->room) {
        struct reached *larger = memAlloc(2 * search->room * sizeof(*larger));
        memcpy(larger, search->reached, search->count * sizeof(*larger));
        if (search->reached != search->few) {
            memFree(search->reached);
        }
        search->reached = larger;
        search->room *= 2;
    }
    search->reached[search->count++] =
        (struct reached){first, search->from, search->queue, search->behind};
}

static bool isAsker(const struct waitgraphSearch *search, const char *owner, size_t length) {
    return length == search->asker->owner_length &&
           memcmp(owner, search->asker->owner, length) == 0;
}

static bool takeStep(struct waitgraphSearch *search) {
    if (search->steps_left == 0) {
        search->result = WAITGRAPH_GAVE_UP;
        return false;
    }
    search->steps_left--;
    return true;
}

static struct waitqueueSeen *seenIn(struct waitgraphSearch *search, struct waitqueue *queue) {
    if (queue->seen.search != search->graph->searches) {
        queue->seen = (struct waitqueueSeen){.search = search->graph->searches, .asker = INT64_MAX};
        for (int mode = 0; mode < MODE_COUNT; mode++) {
            queue->seen.before[mode] = INT64_MIN;
        }
    }
    return &queue->seen;
}

void waitgraphReach(struct waitgraphSearch *search, const char *owner, size_t length) {
    if (!goesOn(search) || !takeStep(search)) {
        return;
    }
    if (isAsker(search, owner, length)) {
        if (search->from != 0) {
            search->result = WAITGRAPH_CIRCLE;
        }
        return;
    }
    struct request *first = firstOfOwner(search->graph, owner, length);
    if (first && first->reached_in != search->graph->searches) {
        first->reached_in = search->graph->searches;
        note(search, first);
    }
}

/* Where an owner stands that has a place here, or is about to get one at `order`. Of several only
 * the first counts: once it has the lock there, the others are re-entries (rule 2). A place without
 * a client counts for a fair request, which takes it over. */
static int64_t firstOrder(const struct waitqueue *queue, const struct request *request,
                          int64_t order) {
    const struct place *own = waitqueueOfOwner(queue, request->owner, request->owner_length);
    for (; own; own = waitqueueNextOfOwner(own)) {
        bool takes_over = own->request->discipline == FAIR && request->discipline == FAIR;
        if (own->order < order && (isIn(own->request) || takes_over)) {
            order = own->order;
        }
    }
    return order;
}

/* Whoever has a tie here that conflicts with a request for `mode`, and stands before this order:
 * with that place or with an earlier one, after which it is a re-entry. From the youngest tie on,
 * which has most of the others ahead of it: what is seen from there need not be seen again. */
static void reachTies(struct waitgraphSearch *search, enum lockMode mode, int64_t order) {
    search->behind = true;
    for (struct place *place = fromTie(search->queue->ties.last); place && goesOn(search);
         place = fromTie(place->in_ties.prev)) {
        const struct request *request = place->request;
        if (rulesConflict(mode, request->mode) &&
            (place->order < order || firstOrder(search->queue, request, place->order) < order)) {
            waitgraphReach(search, request->owner, request->owner_length);
        } else {
            takeStep(search);
        }
    }
}

static struct place *fromWriter(struct link *link) {
    return link ? LIST_ELEMENT(link, struct place, in_writers) : NULL;
}

/* A reader that stands at this order waits also for the writers ahead that wait nowhere else: the
 * other readers, who hold the lock or stand ahead, are in their way although not in its own. The
 * last of those writers leads wherever any of them does. A writer need not ask: whatever is in the
 * way of one ahead is in its own. */
static void reachLastWriter(struct waitgraphSearch *search, enum lockMode mode, int64_t order) {
    if (rulesConflict(mode, MODE_READ)) {
        return;
    }
    search->behind = true;
    for (struct place *place = fromWriter(search->queue->writers.last); place && goesOn(search);
         place = fromWriter(place->in_writers.prev)) {
        if (place->order < order && !place->is_tie && isIn(place->request)) {
            waitgraphReach(search, place->request->owner, place->request->owner_length);
            return;
        }
        takeStep(search);
    }
}

/* Whoever stands before this order and leads to somebody whom the holders do not lead to. */
static void reachThoseAhead(struct waitgraphSearch *search, enum lockMode mode, int64_t order) {
    if (goesOn(search)) { /* or `behind` would not be as it was when the circle was found */
        reachTies(search, mode, order);
    }
    if (goesOn(search)) {
        reachLastWriter(search, mode, order);
    }
}

static void reachHolders(struct waitgraphSearch *search, enum lockMode mode) {
    search->behind = false;
    search->holders(search, search->queue, mode, search->context);
}

void waitgraphReachAlone(struct waitgraphSearch *search, const char *owner, size_t length) {
    seenIn(search, search->queue)->alone = firstOfOwner(search->graph, owner, length);
    waitgraphReach(search, owner, length);
}

/* The asker, if it is going to stand before this order here: as an upgrade does, or a fair request
 * in its owner's old place, or a request whose owner waits here already. */
static void reachAsker(struct waitgraphSearch *search, enum lockMode mode, int64_t order) {
    if (goesOn(search) && seenIn(search, search->queue)->asker < order &&
        rulesConflict(mode, search->asker->mode)) {
        search->behind = true;
        waitgraphReach(search, search->asker->owner, search->asker->owner_length);
    }
}

/* Where the asker is going to stand in this queue. */
static int64_t orderOfAsker(const struct waitgraphSearch *search, const struct waitqueue *queue,
                            bool first) {
    if (first) {
        return INT64_MIN;
    }
    return search->asker_stands ? firstOrder(queue, search->asker, INT64_MAX) : INT64_MAX;
}

/* Whoever is in the way of the asker itself in this queue. The holders are not noted as seen: the
 * asker's own hold is not in its way, but in that of others. */
static void lookFromAsker(struct waitgraphSearch *search, struct waitqueue *queue, bool first) {
    enum lockMode mode = search->asker->mode;
    int64_t order = orderOfAsker(search, queue, first);
    bool all_wait_here_only = waitgraphSize(search->graph) == queue->in_graph - queue->ties.length;
    if (order == INT64_MAX && all_wait_here_only) {
        return; /* nobody who holds this lock waits for another */
    }
    search->queue = queue;
    seenIn(search, queue)->asker = order;
    reachHolders(search, mode);
    if (!first) {
        seenIn(search, queue)->before[mode] = order;
        reachThoseAhead(search, mode, order);
    }
}

/* Whoever is in the way of the owner that stands here. */
static void lookFromPlace(struct waitgraphSearch *search, const struct place *place) {
    enum lockMode mode = place->request->mode;
    struct waitqueueSeen *seen = seenIn(search, place->queue);
    search->queue = place->queue;
    if (!seen->holders[mode]) {
        seen->holders[mode] = true;
        reachHolders(search, mode);
    }
    /* A request for several keys waits for nobody where its owner is the one that holds the lock. */
    if (place->request->discipline == JOINT && seen->alone == search->reached[search->from].first) {
        return;
    }
    bool holders_are_all = place->queue->ties.length == 0 && rulesConflict(mode, MODE_READ) &&
                           seen->asker == INT64_MAX;
    if (holders_are_all) {
        return;
    }
    int64_t order = firstOrder(place->queue, place->request, place->order);
    reachAsker(search, mode, order);
    if (order > seen->before[mode]) {
        seen->before[mode] = order;
        reachThoseAhead(search, mode, order);
    }
}

static void lookFromOwner(struct waitgraphSearch *search, struct request *first) {
    for (struct request *request = first; request && goesOn(search);
         request = nextOfOwner(request)) {
        for (struct place *place = ofRequest(request->places.first); place && goesOn(search);
             place = nextOfRequest(place)) {
            lookFromPlace(search, place);
        }
    }
}

static struct waitgraphStep stepFrom(const struct waitgraphSearch *search, size_t from,
                                     struct waitqueue *queue, bool behind) {
    const struct request *request = from == 0 ? search->asker : search->reached[from].first;
    return (struct waitgraphStep){request->owner, request->owner_length, queue, behind};
}

/* The way that led back to the asker, from its first step on. */
static struct waitgraphCircle *circleOf(const struct waitgraphSearch *search) {
    size_t length = 1;
    for (size_t i = search->from; i != 0; i = search->reached[i].from) {
        length++;
    }
    struct waitgraphCircle *circle = memAlloc(sizeof(*circle) + length * sizeof(circle->steps[0]));
    circle->length = length;
    size_t at = length - 1;
    circle->steps[at] = stepFrom(search, search->from, search->queue, search->behind);
    for (size_t i = search->from; i != 0; i = search->reached[i].from) {
        const struct reached *reached = &search->reached[i];
        circle->steps[--at] = stepFrom(search, reached->from, reached->queue, reached->behind);
    }
    return circle;
}

static void lookAround(struct waitgraphSearch *search, const struct waitgraphAim *aim) {
    note(search, NULL); /* number 0 is the asker */
    for (size_t i = 0; i < aim->count && goesOn(search); i++) {
        lookFromAsker(search, aim->queues[i], aim->first);
    }
    for (size_t i = 1; i < search->count && goesOn(search); i++) {
        search->from = i;
        lookFromOwner(search, search->reached[i].first);
    }
}

enum waitgraphResult waitgraphFindCircle(struct waitgraph *graph, const struct request *asker,
                                         const struct waitgraphAim *aim, size_t most,
                                         waitgraphHolders holders, void *context,
                                         struct waitgraphCircle **circle) {
    if (waitgraphSize(graph) == 0) {
        return WAITGRAPH_NO_CIRCLE;
    }
    struct waitgraphSearch search = {.graph = graph,
                                     .asker = asker,
                                     .holders = holders,
                                     .context = context,
                                     .steps_left = most,
                                     .room = REACHED_AT_FIRST};
    search.reached = search.few;
    graph->searches++;
    /* The asker will stand in more than one queue then: what stands behind it where it waits
     * already waits for it. */
    struct request *own = firstOfOwner(graph, asker->owner, asker->owner_length);
    struct request *only = own && isOnlyPlace(own) ? own : NULL;
    search.asker_stands = own || asker->discipline == FAIR;
    if (only) {
        tie(only);
    }
    lookAround(&search, aim);
    if (search.result == WAITGRAPH_CIRCLE) {
        *circle = circleOf(&search);
    }
    if (only) {
        untie(only);
    }
    if (search.reached != search.few) {
        memFree(search.reached);
    }
    return search.result;
}

struct eachRequest {
    struct waitgraphSearch *search;
    void (*visit)(struct waitgraphSearch *search, const struct request *request, void *context);
    void *context;
};

static void visitEntry(struct mapEntry *entry, void *data) {
    const struct eachRequest *each = data;
    if (goesOn(each->search)) {
        each->visit(each->search, fromEntry(entry), each->context);
    }
}

void waitgraphEachRequest(struct waitgraphSearch *search,
                          void (*visit)(struct waitgraphSearch *search,
                                        const struct request *request, void *context),
                          void *context) {
    struct eachRequest each = {search, visit, context};
    mapEach(&search->graph->by_owner, visitEntry, &each);
    if (goesOn(search)) {
        visit(search, search->asker, context);
    }
}
