/* See waitsearch.h.
 *
 * The search goes breadth first, twice: as far as holders lead, then along the ties of all that has
 * been reached. It starts from what the asker waits for with its new request; and from what it has
 * waited for before only if others begin to wait for it with this position: other cycles through
 * those waits would have been refused when they began.
 */
#include "core/waitsearch.h"

#include <string.h>

struct waitsearch {
    struct waitgraph *graph;
    const struct request *asker;
    const struct waitsearchAsked *asked;
    bool goes_ahead; /* the asker stands ahead of others */
    size_t steps, most;
    enum waitsearchResult result;
    struct waitedfor waited_for; /* that its answer may end the search */
    size_t asked_about;          /* in steps, which `most` does not limit */
    size_t postponed; /* that many steps: what is being looked at is to be looked at after that */
    /* What is being looked at: an owner, where it waits, for which mode. */
    struct waitpathEdge at;
    enum lockMode mode;
    struct waitpath path;
};

static bool goesOn(const struct waitsearch *search) {
    return search->result == WAITSEARCH_NO_CYCLE && search->waited_for.answer != WAITEDFOR_NOBODY;
}

static bool isAsker(const struct waitsearch *search, const char *owner, size_t length) {
    return length == search->asker->owner_length &&
           memcmp(owner, search->asker->owner, length) == 0;
}

static bool takeSteps(struct waitsearch *search, size_t count) {
    if (goesOn(search) && search->most - search->steps < count) {
        search->result = WAITSEARCH_GAVE_UP;
    }
    if (goesOn(search)) {
        search->steps += count;
    }
    return goesOn(search);
}

static bool takeStep(struct waitsearch *search) {
    return takeSteps(search, 1);
}

/* Whether that many more steps are better not taken before one more owner is asked about, on the way
 * to know that nobody waits for the asker: not if that is more than has been taken and is to be. So
 * a search costs at most twice what it would without, and one for whom nobody waits at most twice
 * what it takes to know that. */
static bool isToAskFirst(const struct waitsearch *search, size_t steps) {
    return goesOn(search) && search->waited_for.answer == WAITEDFOR_GOES_ON &&
           search->asked_about + waitedforCost(&search->waited_for) < search->steps + steps;
}

static void askFirst(struct waitsearch *search, size_t steps) {
    while (isToAskFirst(search, steps)) {
        search->asked_about += waitedforCost(&search->waited_for);
        waitedforGoOn(&search->waited_for);
    }
}

bool waitsearchMayTake(struct waitsearch *search, size_t steps) {
    search->postponed = isToAskFirst(search, steps) ? steps : 0;
    return search->postponed == 0;
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
    if (is_asker && search->at.from != 0) {
        search->result = WAITSEARCH_CYCLE;
    }
    struct request *first = waitgraphFirstOf(search->graph, owner, length);
    if (first && !is_asker && first->reached_in != search->graph->searches) {
        first->reached_in = search->graph->searches;
        waitpathAdd(&search->path, first, &search->at);
    }
    return first;
}

void waitsearchReach(struct waitsearch *search, const char *owner, size_t length) {
    reach(search, owner, length);
}

/* Where the owner of this request stands, whose own position is at `order`. Of several only the first
 * counts: once it has the lock there, the others are re-entries (rule 2). */
static int64_t firstOrder(struct waitsearch *search, const struct waitqueue *queue,
                          const struct request *request, int64_t order) {
    const struct position *own = waitqueueOfOwner(queue, request->owner, request->owner_length);
    while (own) {
        bool counts = own->request != request && waitgraphHas(own->request);
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
    return first == search->path.reached[search->at.from].first ||
           first->reached_in == search->graph->searches;
}

/* Whoever has a tie here that conflicts with a request for `mode`, and stands before this order:
 * with that position or with an earlier one, after which it is a re-entry. From the youngest tie on,
 * which has most of the others ahead of it: what is seen from there need not be seen again. */
static void reachTies(struct waitsearch *search, enum lockMode mode, int64_t order) {
    search->at.behind = true;
    for (struct position *position = waitgraphLastTie(search->at.queue); position && goesOn(search);
         position = waitgraphTieBefore(position)) {
        const struct request *request = position->request;
        if (rulesConflict(mode, request->mode) && !wasReached(search, request) &&
            (position->order < order ||
             firstOrder(search, search->at.queue, request, position->order) < order)) {
            waitsearchReach(search, request->owner, request->owner_length);
        } else {
            takeStep(search);
        }
    }
}

/* A reader that stands at this order waits also for the writers ahead that wait nowhere else: the
 * other readers, who hold the lock or stand ahead, are in their way although not in its own. The
 * last of those writers leads wherever any of them does; but for one whose owner has a position further
 * ahead, where it counts as standing. A writer need not ask: whatever is in the way of one ahead is
 * in its own. */
static void reachLastWriter(struct waitsearch *search, enum lockMode mode, int64_t order) {
    if (rulesConflict(mode, MODE_READ)) {
        return;
    }
    search->at.behind = true;
    for (struct position *position = waitqueueLastWriter(search->at.queue);
         position && goesOn(search); position = waitqueueWriterBefore(position)) {
        if (position->order < order && !position->is_tie && waitgraphHas(position->request)) {
            waitsearchReach(search, position->request->owner, position->request->owner_length);
            if (mapIsAlone(&position->by_owner)) {
                return;
            }
        }
        takeStep(search);
    }
}

/* Whoever stands before this order and leads to somebody whom the holders do not lead to. */
static void reachThoseAhead(struct waitsearch *search, enum lockMode mode, int64_t order) {
    askFirst(search, search->at.queue->ties.length);
    if (goesOn(search)) { /* or `behind` would not be as it was when the cycle was found */
        reachTies(search, mode, order);
    }
    if (goesOn(search)) {
        reachLastWriter(search, mode, order);
    }
}

static void reachHolders(struct waitsearch *search, enum lockMode mode) {
    const struct waitsearchAsked *asked = search->asked;
    search->at.behind = false;
    search->mode = mode;
    askFirst(search, 1);
    while (goesOn(search)) {
        search->postponed = 0;
        asked->holders(search, search->at.queue, mode, asked->context);
        if (search->postponed == 0) {
            break;
        }
        askFirst(search, search->postponed);
    }
}

void waitsearchReachAlone(struct waitsearch *search, const char *owner, size_t length) {
    const struct request *first = reach(search, owner, length);
    seenIn(search, search->at.queue)->alone =
        isAsker(search, owner, length) ? search->asker : first;
}

/* A request for several keys waits for nobody where its owner is the one that holds the lock. */
static bool isHeldByOwner(const struct waitsearch *search, const struct waitqueue *queue,
                          const struct request *request) {
    return request->discipline == MULTIKEY &&
           queue->seen.alone == waitpathRequest(&search->path, search->at.from);
}

/* The asker, if it is before this order here: as an upgrade is, a fair request in its owner's old
 * position, a request whose owner waits here already. */
static void reachAsker(struct waitsearch *search, enum lockMode mode, int64_t order) {
    if (goesOn(search) && seenIn(search, search->at.queue)->asker < order &&
        rulesConflict(mode, search->asker->mode)) {
        search->at.behind = true;
        waitsearchReach(search, search->asker->owner, search->asker->owner_length);
    }
}

/* Who holds the lock that the asker wants. That is not noted as seen: the asker's own hold is not in
 * its way, but in that of others. */
static void askerHolders(struct waitsearch *search, struct position *position) {
    struct waitqueueSeen *seen = seenIn(search, position->queue);
    int64_t order = waitgraphIsLast(position) ? INT64_MAX : position->order;
    order = firstOrder(search, position->queue, search->asker, order);
    search->at.queue = position->queue;
    reachHolders(search, search->asker->mode);
    if (!isHeldByOwner(search, position->queue, search->asker)) {
        seen->asker = order;
        search->goes_ahead |= order != INT64_MAX;
    }
}

static void askerTies(struct waitsearch *search, struct position *position) {
    struct waitqueueSeen *seen = seenIn(search, position->queue);
    bool is_first = waitqueueFirst(position->queue) == position;
    search->at.queue = position->queue;
    if (!is_first && !isHeldByOwner(search, position->queue, search->asker)) {
        seen->before[search->asker->mode] = seen->asker;
        reachThoseAhead(search, search->asker->mode, seen->asker);
    }
}

/* Whether this owner's positions here were looked from in this mode, all at once, and notes that they
 * are now. An owner may wait here on thousands of connections. */
static bool wasLookedFrom(const struct waitsearch *search, struct waitqueueSeen *seen,
                          enum lockMode mode) {
    const struct request *first = search->path.reached[search->at.from].first;
    if (seen->looked != first) {
        seen->looked = first;
        memset(seen->looked_as, 0, sizeof(seen->looked_as));
    }
    bool was = seen->looked_as[mode];
    seen->looked_as[mode] = true;
    return was;
}

/* Who holds what the owner that stands here wants. For the asker, here and in positionTies, nothing is
 * noted as seen: its own holds and positions are not in its way, but in that of others. */
static void positionHolders(struct waitsearch *search, struct position *position) {
    enum lockMode mode = position->request->mode;
    struct waitqueueSeen *seen = seenIn(search, position->queue);
    if (!seen->holders[mode]) {
        seen->holders[mode] = search->at.from != 0;
        search->at.queue = position->queue;
        reachHolders(search, mode);
    }
}

/* Whoever else is in its way. */
static void positionTies(struct waitsearch *search, struct position *position) {
    enum lockMode mode = position->request->mode;
    struct waitqueueSeen *seen = seenIn(search, position->queue);
    bool is_asker = search->at.from == 0;
    search->at.queue = position->queue;
    if (isHeldByOwner(search, position->queue, position->request)) {
        takeStep(
            search); /* as any other of the owner's positions is, among the ties of its queue */
        return;
    }
    bool holders_are_all = position->queue->ties.length == 0 && rulesConflict(mode, MODE_READ) &&
                           seen->asker == INT64_MAX;
    if (wasLookedFrom(search, seen, mode) || holders_are_all) {
        return;
    }
    int64_t order = firstOrder(search, position->queue, position->request, position->order);
    if (is_asker && seen->asker < order) {
        order = seen->asker; /* its new position is the first */
    }
    reachAsker(search, mode, order);
    if (order > seen->before[mode]) {
        seen->before[mode] = is_asker ? seen->before[mode] : order;
        reachThoseAhead(search, mode, order);
    }
}

typedef void (*lookAt)(struct waitsearch *search, struct position *position);

static void lookFromRequest(struct waitsearch *search, const struct request *request, lookAt look) {
    for (struct position *position = waitqueueFirstOf(request); position && goesOn(search);
         position = waitqueueNextOf(position)) {
        look(search, position);
    }
}

static void lookFromOwner(struct waitsearch *search, lookAt look) {
    for (struct request *request = search->path.reached[search->at.from].first;
         request && goesOn(search); request = waitgraphNextOf(request)) {
        lookFromRequest(search, request, look);
    }
}

/* If it goes ahead, those behind wait for the asker anew, and so for all that it waits for. */
static void lookForHolders(struct waitsearch *search, size_t from) {
    search->at.from = from;
    if (from == 0) {
        lookFromRequest(search, search->asker, askerHolders);
    }
    if (from != 0 || search->goes_ahead) {
        lookFromOwner(search, positionHolders);
    }
}

static void lookForTies(struct waitsearch *search, size_t from) {
    search->at.from = from;
    if (from == 0) {
        lookFromRequest(search, search->asker, askerTies);
    }
    if (from != 0 || search->goes_ahead) {
        lookFromOwner(search, positionTies);
    }
}

static void lookAround(struct waitsearch *search) {
    askFirst(search, 1 + search->asker->positions.length);
    size_t held = 0, tied = 0;
    while (goesOn(search) && tied < search->path.count) {
        if (held < search->path.count) {
            lookForHolders(search, held++);
        } else {
            lookForTies(search, tied++);
        }
    }
}

enum waitsearchResult waitsearchFind(struct waitgraph *graph, const struct request *asker,
                                     const struct waitsearchAsked *asked,
                                     struct waitsearchFound *found) {
    if (waitgraphAsksForNothingNew(graph, asker)) {
        found->steps = 0;
        return WAITSEARCH_NO_CYCLE;
    }
    struct waitsearch search = {
        .graph = graph, .asker = asker, .asked = asked, .most = found->steps};
    waitedforBegin(&search.waited_for, graph, asker,
                   (struct waitedforHolders){asked->is_holder, asked->context});
    graph->searches++;
    /* The asker stands in more than one queue now: what stands behind it where it has waited before
     * waits for it. */
    struct request *own = waitgraphFirstOf(graph, asker->owner, asker->owner_length);
    struct request *tied = waitgraphTieAll(graph, asker->owner, asker->owner_length);
    waitpathBegin(&search.path, asker, own);
    lookAround(&search);
    if (search.result == WAITSEARCH_CYCLE) {
        found->cycle = waitpathCycle(&search.path, &search.at);
    }
    waitpathEnd(&search.path);
    waitgraphUntieAll(tied);
    found->steps = search.steps + search.asked_about;
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
    if (takeSteps(search, steps)) {
        visit(search, search->asker, context);
    }
    bool *asked = &seenIn(search, search->at.queue)->asked[search->mode];
    if (!*asked) {
        *asked = true;
        mapEach(&search->graph->by_owner, visitEntry, &each);
    }
}
