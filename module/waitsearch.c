/* See waitsearch.h.
 *
 * The search goes breadth first, so the circle that it finds is a shortest one. It starts from what
 * the asker is going to wait for; and from what it waits for already only if others begin to wait
 * for it with this place: other circles through those waits would have been refused when they
 * began.
 */
#include "waitsearch.h"

#include <string.h>

#include "mem.h"

/* An owner that the asker would wait for, and how the search came to it. */
struct reached {
    struct request *first;   /* of its requests; of the asker NULL */
    size_t from;             /* who waits for it: an index */
    struct waitqueue *queue; /* where */
    bool behind;
};

#define REACHED_AT_FIRST 16

struct waitsearch {
    struct waitgraph *graph;
    const struct request *asker;
    waitsearchHolders holders;
    void *context;
    bool goes_ahead;   /* the asker will stand ahead of others */
    bool asker_stands; /* has a place somewhere already, or may have one without a client */
    size_t steps_left;
    enum waitsearchResult result;
    /* What is being looked at: owner number `from`, as it waits in `queue` for `mode`. */
    size_t from;
    struct waitqueue *queue;
    enum lockMode mode;
    bool behind;
    struct reached *reached;
    size_t count, room;
    struct reached few[REACHED_AT_FIRST];
};

static bool goesOn(const struct waitsearch *search) {
    return search->result == WAITSEARCH_NO_CIRCLE;
}

static void note(struct waitsearch *search, struct request *first) {
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

static bool isAsker(const struct waitsearch *search, const char *owner, size_t length) {
    return length == search->asker->owner_length &&
           memcmp(owner, search->asker->owner, length) == 0;
}

static bool takeSteps(struct waitsearch *search, size_t count) {
    if (goesOn(search) && search->steps_left < count) {
        search->result = WAITSEARCH_GAVE_UP;
    }
    if (goesOn(search)) {
        search->steps_left -= count;
    }
    return goesOn(search);
}

static bool takeStep(struct waitsearch *search) {
    return takeSteps(search, 1);
}

static struct waitqueueSeen *seenIn(struct waitsearch *search, struct waitqueue *queue) {
    if (queue->seen.search != search->graph->searches) {
        queue->seen = (struct waitqueueSeen){.search = search->graph->searches, .asker = INT64_MAX};
        for (int mode = 0; mode < MODE_COUNT; mode++) {
            queue->seen.before[mode] = INT64_MIN;
        }
    }
    return &queue->seen;
}

/* Returns the first request of this owner, if it waits. */
static struct request *reach(struct waitsearch *search, const char *owner, size_t length) {
    if (!takeStep(search)) {
        return NULL;
    }
    bool is_asker = isAsker(search, owner, length);
    if (is_asker && search->from != 0) {
        search->result = WAITSEARCH_CIRCLE;
    }
    struct request *first = waitgraphFirstOf(search->graph, owner, length);
    if (first && !is_asker && first->reached_in != search->graph->searches) {
        first->reached_in = search->graph->searches;
        note(search, first);
    }
    return first;
}

void waitsearchReach(struct waitsearch *search, const char *owner, size_t length) {
    reach(search, owner, length);
}

/* Where an owner stands that has a place here, or is about to get one at `order`. Of several only
 * the first counts: once it has the lock there, the others are re-entries (rule 2). A place without
 * a client counts for a fair request, which takes it over. `request` itself is at `order`. */
static int64_t firstOrder(struct waitsearch *search, const struct waitqueue *queue,
                          const struct request *request, int64_t order) {
    const struct place *own = waitqueueOfOwner(queue, request->owner, request->owner_length);
    while (own) {
        bool takes_over = own->request->discipline == FAIR && request->discipline == FAIR;
        bool counts = own->request != request && (waitgraphHas(own->request) || takes_over);
        order = counts && own->order < order ? own->order : order;
        own = waitqueueNextOfOwner(own);
        if (own && !takeStep(search)) {
            break; /* too many for this search */
        }
    }
    return order;
}

/* Whether the owner of this request has been come by; or is the one that is looked from, which is
 * not in its own way. */
static bool wasReached(const struct waitsearch *search, const struct request *request) {
    const struct request *first =
        waitgraphFirstOf(search->graph, request->owner, request->owner_length);
    return first == search->reached[search->from].first ||
           first->reached_in == search->graph->searches;
}

/* Whoever has a tie here that conflicts with a request for `mode`, and stands before this order:
 * with that place or with an earlier one, after which it is a re-entry. From the youngest tie on,
 * which has most of the others ahead of it: what is seen from there need not be seen again. */
static void reachTies(struct waitsearch *search, enum lockMode mode, int64_t order) {
    search->behind = true;
    for (struct place *place = waitgraphLastTie(search->queue); place && goesOn(search);
         place = waitgraphTieBefore(place)) {
        const struct request *request = place->request;
        if (rulesConflict(mode, request->mode) && !wasReached(search, request) &&
            (place->order < order ||
             firstOrder(search, search->queue, request, place->order) < order)) {
            waitsearchReach(search, request->owner, request->owner_length);
        } else {
            takeStep(search);
        }
    }
}

/* A reader that stands at this order waits also for the writers ahead that wait nowhere else: the
 * other readers, who hold the lock or stand ahead, are in their way although not in its own. The
 * last of those writers leads wherever any of them does. A writer need not ask: whatever is in the
 * way of one ahead is in its own. */
static void reachLastWriter(struct waitsearch *search, enum lockMode mode, int64_t order) {
    if (rulesConflict(mode, MODE_READ)) {
        return;
    }
    search->behind = true;
    for (struct place *place = waitqueueLastWriter(search->queue); place && goesOn(search);
         place = waitqueueWriterBefore(place)) {
        if (place->order < order && !place->is_tie && waitgraphHas(place->request)) {
            waitsearchReach(search, place->request->owner, place->request->owner_length);
            return;
        }
        takeStep(search);
    }
}

/* Whoever stands before this order and leads to somebody whom the holders do not lead to. */
static void reachThoseAhead(struct waitsearch *search, enum lockMode mode, int64_t order) {
    if (goesOn(search)) { /* or `behind` would not be as it was when the circle was found */
        reachTies(search, mode, order);
    }
    if (goesOn(search)) {
        reachLastWriter(search, mode, order);
    }
}

static void reachHolders(struct waitsearch *search, enum lockMode mode) {
    search->behind = false;
    search->mode = mode;
    search->holders(search, search->queue, mode, search->context);
}

void waitsearchReachAlone(struct waitsearch *search, const char *owner, size_t length) {
    const struct request *first = reach(search, owner, length);
    seenIn(search, search->queue)->alone = isAsker(search, owner, length) ? search->asker : first;
}

static const struct request *requestOf(const struct waitsearch *search, size_t owner) {
    return owner == 0 ? search->asker : search->reached[owner].first;
}

/* A request for several keys waits for nobody where its owner is the one that holds the lock. */
static bool isHeldByOwner(const struct waitsearch *search, const struct waitqueue *queue,
                          const struct request *request) {
    return request->discipline == JOINT && queue->seen.alone == requestOf(search, search->from);
}

/* The asker, if it is before this order here: as an upgrade is, a fair request in its owner's old
 * place, a request whose owner waits here already. */
static void reachAsker(struct waitsearch *search, enum lockMode mode, int64_t order) {
    if (goesOn(search) && seenIn(search, search->queue)->asker < order &&
        rulesConflict(mode, search->asker->mode)) {
        search->behind = true;
        waitsearchReach(search, search->asker->owner, search->asker->owner_length);
    }
}

/* Whoever is in the way of the asker in this queue, where its new place is at `order`. The holders
 * are not noted as seen: the asker's own hold is not in its way, but in that of others. */
static void lookFromAsker(struct waitsearch *search, struct waitqueue *queue, int64_t order) {
    enum lockMode mode = search->asker->mode;
    struct waitqueueSeen *seen = seenIn(search, queue);
    bool may_be_first = search->asker_stands && order != INT64_MIN;
    order = may_be_first ? firstOrder(search, queue, search->asker, order) : order;
    bool all_wait_here_only = waitgraphSize(search->graph) == queue->in_graph - queue->ties.length;
    if (order == INT64_MAX && all_wait_here_only) {
        return; /* nobody who holds this lock waits for another */
    }
    search->queue = queue;
    reachHolders(search, mode);
    bool needs_it = !isHeldByOwner(search, queue, search->asker);
    seen->asker = needs_it ? order : INT64_MAX;
    search->goes_ahead |= seen->asker != INT64_MAX;
    if (needs_it && order != INT64_MIN) {
        seen->before[mode] = order;
        reachThoseAhead(search, mode, order);
    }
}

/* Whether this owner's places here were looked from in this mode, all at once, and notes that they
 * are now. An owner may wait here on thousands of connections. */
static bool wasLookedFrom(const struct waitsearch *search, struct waitqueueSeen *seen,
                          enum lockMode mode) {
    const struct request *first = search->reached[search->from].first;
    if (seen->looked != first) {
        seen->looked = first;
        memset(seen->looked_as, 0, sizeof(seen->looked_as));
    }
    bool was = seen->looked_as[mode];
    seen->looked_as[mode] = true;
    return was;
}

/* Whoever is in the way of the owner that stands here. For the asker nothing is noted as seen: its
 * own holds and places are not in its way, but in that of others. */
static void lookFromPlace(struct waitsearch *search, const struct place *place) {
    enum lockMode mode = place->request->mode;
    struct waitqueueSeen *seen = seenIn(search, place->queue);
    bool is_asker = search->from == 0;
    search->queue = place->queue;
    if (!seen->holders[mode]) {
        seen->holders[mode] = !is_asker;
        reachHolders(search, mode);
    }
    if (isHeldByOwner(search, place->queue, place->request)) {
        takeStep(search); /* as any other of the owner's places is, among the ties of its queue */
        return;
    }
    if (wasLookedFrom(search, seen, mode)) {
        return;
    }
    bool holders_are_all = place->queue->ties.length == 0 && rulesConflict(mode, MODE_READ) &&
                           seen->asker == INT64_MAX;
    if (holders_are_all) {
        return;
    }
    int64_t order = firstOrder(search, place->queue, place->request, place->order);
    if (is_asker && seen->asker < order) {
        order = seen->asker; /* its new place is the first */
    }
    reachAsker(search, mode, order);
    if (order > seen->before[mode]) {
        seen->before[mode] = is_asker ? seen->before[mode] : order;
        reachThoseAhead(search, mode, order);
    }
}

static void lookFromOwner(struct waitsearch *search, struct request *first) {
    for (struct request *request = first; request && goesOn(search);
         request = waitgraphNextOf(request)) {
        for (struct place *place = waitqueueFirstOf(request); place && goesOn(search);
             place = waitqueueNextOf(place)) {
            lookFromPlace(search, place);
        }
    }
}

static struct waitsearchStep stepFrom(const struct waitsearch *search, size_t from,
                                      struct waitqueue *queue, bool behind) {
    const struct request *of = requestOf(search, from);
    return (struct waitsearchStep){of->owner, of->owner_length, queue, behind};
}

/* The way that led back to the asker, from its first step on. */
static struct waitsearchCircle *circleOf(const struct waitsearch *search) {
    size_t length = 1;
    for (size_t i = search->from; i != 0; i = search->reached[i].from) {
        length++;
    }
    struct waitsearchCircle *circle = memAlloc(sizeof(*circle) + length * sizeof(circle->steps[0]));
    circle->length = length;
    size_t at = length - 1;
    circle->steps[at] = stepFrom(search, search->from, search->queue, search->behind);
    for (size_t i = search->from; i != 0; i = search->reached[i].from) {
        const struct reached *reached = &search->reached[i];
        circle->steps[--at] = stepFrom(search, reached->from, reached->queue, reached->behind);
    }
    return circle;
}

static void lookAround(struct waitsearch *search, const struct waitsearchAim *aim,
                       struct request *own) {
    note(search, own); /* number 0 is the asker */
    for (size_t i = 0; aim && i < aim->count && goesOn(search); i++) {
        lookFromAsker(search, aim->queues[i], aim->first ? INT64_MIN : INT64_MAX);
    }
    struct place *place = aim ? NULL : waitqueueFirstOf(search->asker);
    for (; place && goesOn(search); place = waitqueueNextOf(place)) {
        lookFromAsker(search, place->queue, waitgraphIsLast(place) ? INT64_MAX : place->order);
    }
    if (search->goes_ahead) { /* those behind wait for the asker anew, and so for all of that */
        lookFromOwner(search, own);
    }
    for (size_t i = 1; i < search->count && goesOn(search); i++) {
        search->from = i;
        lookFromOwner(search, search->reached[i].first);
    }
}

enum waitsearchResult waitsearchFind(struct waitgraph *graph, const struct request *asker,
                                     const struct waitsearchAim *aim, size_t most,
                                     waitsearchHolders holders, void *context,
                                     struct waitsearchCircle **circle) {
    if (waitgraphSize(graph) == 0) {
        return WAITSEARCH_NO_CIRCLE;
    }
    struct waitsearch search = {.graph = graph,
                                .asker = asker,
                                .holders = holders,
                                .context = context,
                                .steps_left = most,
                                .room = REACHED_AT_FIRST};
    search.reached = search.few;
    graph->searches++;
    /* The asker will stand in more than one queue then: what stands behind it where it waits
     * already waits for it. */
    struct request *own = waitgraphFirstOf(graph, asker->owner, asker->owner_length);
    search.asker_stands = own || (aim && asker->discipline == FAIR);
    struct request *only = own ? waitgraphTieOnly(graph, asker->owner, asker->owner_length) : NULL;
    lookAround(&search, aim, own);
    if (search.result == WAITSEARCH_CIRCLE) {
        *circle = circleOf(&search);
    }
    if (only) {
        waitgraphUntie(only);
    }
    if (search.reached != search.few) {
        memFree(search.reached);
    }
    return search.result;
}

struct eachRequest {
    struct waitsearch *search;
    size_t steps; /* for each */
    void (*visit)(struct waitsearch *search, const struct request *request, void *context);
    void *context;
};

static void visitEntry(struct mapEntry *entry, void *data) {
    const struct eachRequest *each = data;
    if (takeSteps(each->search, each->steps)) {
        each->visit(each->search, LIST_ELEMENT(entry, struct request, by_requester), each->context);
    }
}

void waitsearchEachRequest(struct waitsearch *search, size_t steps,
                           void (*visit)(struct waitsearch *search, const struct request *request,
                                         void *context),
                           void *context) {
    struct eachRequest each = {search, steps, visit, context};
    bool *asked = &seenIn(search, search->queue)->asked[search->mode];
    if (!*asked) {
        *asked = true;
        mapEach(&search->graph->by_owner, visitEntry, &each);
    }
    if (takeSteps(search, steps)) {
        visit(search, search->asker, context);
    }
}
