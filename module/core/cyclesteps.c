/* See cyclesteps.h. */
#include "core/cyclesteps.h"

#include <assert.h>

#include <string.h>

#include "core/cyclereach.h"

/* Whether this is a position of a request for several keys whose owner is the only holder of this
 * plain lock: such a request waits for no other owner here, and others wait for its hold anyway. */
static bool isHeldAlone(struct cyclesearch *search, const struct position *position) {
    return position->request->discipline == MULTIKEY &&
           searchSeenIn(search, search->at.queue)->alone == search->at.from + 1;
}

/* Whether this is a position of a request for several keys, to read or to write. */
static bool mayShare(const struct position *position) {
    return position->request->discipline == MULTIKEY && position->mode != MODE_EXCLUSIVE;
}

/* Whether the owner of this position holds the lock in any mode. */
static bool holdsAny(const struct cyclesearch *search, const struct position *position) {
    return search->asked.is_holder(position->queue, MODE_WRITE, position->request,
                                   search->asked.context);
}

/* Whether this is a position of a request for several keys whose owner holds the lock: such a
 * request waits for no other request here. */
static bool isHeldByOwner(struct cyclesearch *search, const struct position *position) {
    return isHeldAlone(search, position) ||
           (mayShare(position) && searchTakeSteps(search, 1) && holdsAny(search, position));
}

/* ---- the position of an owner ---- */

/* The order at which the owner of this request counts in the queue; its own position is at `order`.
 * Of several positions only the first counts: once the owner has the lock, the others are
 * re-entries (rule 2). */
static int64_t firstOrder(struct cyclesearch *search, const struct waitqueue *queue,
                          const struct waitRequest *request, int64_t order) {
    const struct position *own = waitqueueOfOwner(queue, request->owner, request->owner_length);
    while (own && own->order < order && !waitgraphHas(own->request)) {
        own = waitqueueNextOfOwner(own);
        if (own && !searchTakeSteps(search, 1)) {
            break; /* too many steps for this search */
        }
    }
    return own && own->order < order && waitgraphHas(own->request) ? own->order : order;
}

static bool standsBefore(struct cyclesearch *search, const struct position *position,
                         int64_t order) {
    return position->order < order ||
           firstOrder(search, search->at.queue, position->request, position->order) < order;
}

/* ---- from one position to the next ---- */

static void goToPosition(struct cyclesearch *search, const struct waitRequest *request) {
    search->request = request;
    search->position = request ? waitqueueFirstOf(request) : NULL;
    search->stage = request ? SEARCH_POSITION : SEARCH_OWNER;
}

static void goToNextPosition(struct cyclesearch *search) {
    assert(search->position);
    search->position = waitqueueNextOf(search->position);
    search->stage = SEARCH_POSITION;
}

static void goToHolders(struct cyclesearch *search, enum lockMode mode) {
    search->at.behind = false;
    search->mode = mode;
    search->stage = SEARCH_HOLDERS;
}

static void goToTies(struct cyclesearch *search, enum lockMode mode, int64_t order) {
    search->mode = mode;
    search->order = order;
    search->stage = SEARCH_TIES;
}

/* Holders are followed before ties. If no owner is left to expand, there is no cycle. */
static void takeOwner(struct cyclesearch *search) {
    if (search->tied == search->path.count) {
        search->result = CYCLESEARCH_NO_CYCLE;
        return;
    }
    search->is_for_ties = search->held == search->path.count;
    search->at.from = search->is_for_ties ? search->tied++ : search->held++;
    goToPosition(search, search->at.from == 0 ? search->asker
                                              : search->path.reached[search->at.from].first);
}

/* If the asker is ahead of other requests, those now wait for it, and so for everything that its
 * owner waits for: then the owner's other requests are expanded too. */
static const struct waitRequest *nextRequest(const struct cyclesearch *search) {
    if (search->request != search->asker) {
        return waitgraphNextOf(search->request);
    }
    return search->goes_ahead ? search->path.reached[0].first : NULL;
}

/* ---- holders ---- */

/* Begins to find the holders of the lock that the asker wants. That is not recorded as seen: the
 * asker's own hold does not block the asker, but it blocks other owners. */
static void lookForHoldersOfAsker(struct cyclesearch *search) {
    struct position *position = search->position;
    int64_t order = waitgraphIsLast(position) ? INT64_MAX : position->order;
    search->order = firstOrder(search, position->queue, search->asker, order);
    goToHolders(search, position->mode);
}

/* Begins to find the holders of what the owner in this position wants. For the asker nothing is
 * recorded as seen, here and in lookForTies: its own holds and positions do not block it, but they
 * block other owners. */
static void lookForHolders(struct cyclesearch *search) {
    enum lockMode mode = search->position->mode;
    struct waitqueueSeen *seen = searchSeenIn(search, search->at.queue);
    if (seen->holders[mode]) {
        goToNextPosition(search);
        return;
    }
    seen->holders[mode] = search->at.from != 0;
    goToHolders(search, mode);
}

static void leaveHolders(struct cyclesearch *search) {
    struct waitqueue *queue = search->at.queue;
    if (search->request == search->asker && !isHeldAlone(search, search->position)) {
        struct waitqueueSeen *seen = searchSeenIn(search, queue);
        seen->asker = search->order;
        seen->asker_mode = search->position->mode;
        search->goes_ahead |= search->order != INT64_MAX;
    }
    goToNextPosition(search);
}

static void takeHolders(struct cyclesearch *search) {
    size_t steps = search->postponed > 0 ? search->postponed : 1;
    if (searchAskFirst(search, steps)) {
        return;
    }
    search->postponed = 0;
    search->asked.holders(search, search->at.queue, search->mode, search->asked.context);
    if (searchLooks(search) && search->stage == SEARCH_HOLDERS && search->postponed == 0) {
        leaveHolders(search);
    }
}

static void takeEach(struct cyclesearch *search) {
    const struct waitRequest *request = waitgraphNextRequest(search->graph);
    if (request) {
        search->work++;
        searchAskWhetherHolder(search, request);
    } else {
        leaveHolders(search);
    }
}

/* ---- requests ahead ---- */

/* Reaches the asker if it is before this order here. It can be: as an upgrade; as a fair request
 * that took over a position of its owner; or if its owner already waits here. */
static void reachAsker(struct cyclesearch *search, enum lockMode mode, int64_t order) {
    const struct waitqueueSeen *seen = searchSeenIn(search, search->at.queue);
    if (seen->asker < order && rulesConflict(mode, seen->asker_mode)) {
        search->at.behind = true;
        searchReach(search, search->asker);
    }
}

/* The first of the older positions of the asker's owner in this queue, if they are no ties; else
 * NULL. The search has to treat them as ties, because with the asker the owner now waits in another
 * queue too. If it waited elsewhere before, they are ties already; if not, all of them wait for the
 * same. */
static const struct position *untiedOfAsker(const struct cyclesearch *search) {
    const struct waitRequest *first = search->path.reached[0].first;
    bool is_here = first && search->at.from != 0 && !waitqueueFirstOf(first)->is_tie &&
                   waitqueueFirstOf(first)->queue == search->at.queue;
    return is_here ? waitqueueFirstOf(first) : NULL;
}

static void reachUntiedOfAsker(struct cyclesearch *search, enum lockMode mode, int64_t order) {
    const struct position *position = untiedOfAsker(search);
    if (position && searchLooks(search) && rulesConflict(mode, position->mode) &&
        standsBefore(search, position, order)) {
        search->at.behind = true;
        searchReach(search, search->asker);
    }
}

static void lookForTiesOfAsker(struct cyclesearch *search) {
    struct waitqueueSeen *seen = searchSeenIn(search, search->at.queue);
    enum lockMode mode = search->position->mode;
    bool is_first = waitqueueFirst(search->at.queue) == search->position;
    if (is_first || isHeldByOwner(search, search->position)) {
        goToNextPosition(search);
        return;
    }
    seen->before[mode] = seen->asker;
    goToTies(search, mode, seen->asker);
}

/* Whether this owner's positions here have been expanded in this mode. Records all of them as
 * expanded at once, because an owner may wait here on thousands of connections. */
static bool wasLookedFrom(const struct cyclesearch *search, struct waitqueueSeen *seen,
                          enum lockMode mode) {
    size_t number = search->at.from + 1;
    if (seen->looked != number) {
        seen->looked = number;
        memset(seen->looked_as, 0, sizeof(seen->looked_as));
    }
    bool was = seen->looked_as[mode];
    seen->looked_as[mode] = true;
    return was;
}

/* Whether only holders can be in the way of a request in this queue. */
static bool holdersAreAll(const struct cyclesearch *search, enum lockMode mode) {
    const struct waitqueue *queue = search->at.queue;
    return queue->ties.length == 0 && rulesConflict(mode, MODE_READ) &&
           queue->seen.asker == INT64_MAX && !untiedOfAsker(search);
}

/* Begins to find the owners that are in the way of this request and hold nothing here. */
static void lookForTies(struct cyclesearch *search) {
    enum lockMode mode = search->position->mode;
    struct waitqueueSeen *seen = searchSeenIn(search, search->at.queue);
    bool is_asker = search->at.from == 0;
    if (isHeldByOwner(search, search->position)) {
        if (!mayShare(search->position)) { /* else that has been a step already */
            searchTakeSteps(search, 1);
        }
        goToNextPosition(search);
        return;
    }
    if (wasLookedFrom(search, seen, mode) || holdersAreAll(search, mode)) {
        goToNextPosition(search);
        return;
    }
    int64_t order = firstOrder(search, search->at.queue, search->request, search->position->order);
    if (is_asker && seen->asker < order) {
        order = seen->asker; /* its new position is the first */
    }
    reachAsker(search, mode, order);
    reachUntiedOfAsker(search, mode, order);
    if (!searchLooks(search)) {
        return;
    }
    if (order <= seen->before[mode]) {
        goToNextPosition(search);
        return;
    }
    seen->before[mode] = is_asker ? seen->before[mode] : order;
    goToTies(search, mode, order);
}

static void beginTies(struct cyclesearch *search) {
    if (!searchAskFirst(search, search->at.queue->ties.length)) {
        search->at.behind = true;
        waitgraphWalkTies(search->graph, search->at.queue);
        search->stage = SEARCH_TIE;
    }
}

/* Whether the owner of this request has been reached; or is the one that is expanded, which is not
 * in its own way. */
static bool wasReached(const struct cyclesearch *search, const struct waitRequest *request) {
    const struct waitRequest *first =
        waitgraphFirstOf(search->graph, request->owner, request->owner_length);
    return first == search->path.reached[search->at.from].first || searchHasReached(search, first);
}

/* Reaches the owner of the next tie if the tie conflicts with a request for `search->mode` and its
 * owner is before `search->order`: with this position, or with an earlier one, after which this one
 * is a re-entry. The walk begins with the youngest tie, which has most of the others ahead of it:
 * what is reached from there need not be reached again. */
static void takeTie(struct cyclesearch *search) {
    const struct position *tie = waitgraphNextTie(search->graph);
    if (!tie) {
        search->stage = SEARCH_WRITERS;
    } else if (rulesConflict(search->mode, tie->mode) && !wasReached(search, tie->request) &&
               standsBefore(search, tie, search->order)) {
        searchReach(search, tie->request);
    } else {
        searchTakeSteps(search, 1);
    }
}

/* A reader at this order also waits for the writers ahead of it that wait nowhere else: other
 * readers, which hold the lock or are ahead, block those writers although they do not block this
 * reader. The last of the writers leads to every owner that any of them leads to; except if its
 * owner has another position further ahead, because it counts there. A writer does not need this:
 * whatever blocks a writer ahead of it also blocks itself. */
static void beginWriters(struct cyclesearch *search) {
    if (rulesConflict(search->mode, MODE_READ)) {
        goToNextPosition(search);
    } else {
        search->writer = waitqueueLastWriter(search->at.queue);
        search->stage = SEARCH_WRITER;
    }
}

/* Records that this writer leads to every owner that the writers ahead of it lead to: those need
 * not be reached. */
static void noteStandsForOthers(struct cyclesearch *search, const struct waitRequest *request) {
    const struct waitRequest *first =
        waitgraphFirstOf(search->graph, request->owner, request->owner_length);
    if (searchHasReached(search, first)) {
        search->path.reached[first->reached_as].stands_for_others = true;
    }
}

static void takeWriter(struct cyclesearch *search) {
    struct position *writer = search->writer;
    if (!writer) {
        goToNextPosition(search);
        return;
    }
    search->writer = waitqueueWriterBefore(writer);
    if (writer->order < search->order && !writer->is_tie && waitgraphHas(writer->request)) {
        searchReach(search, writer->request);
        if (mapIsAlone(&writer->by_owner)) {
            noteStandsForOthers(search, writer->request);
            search->writer = NULL;
            return;
        }
    }
    searchTakeSteps(search, 1);
}

/* ---- the next step ---- */

static void takePosition(struct cyclesearch *search) {
    search->work++;
    if (!search->position) {
        const struct waitRequest *next = nextRequest(search);
        goToPosition(search, next);
        if (next && next->is_copy) {
            search->position = NULL;
        }
        return;
    }
    search->at.queue = search->position->queue;
    searchSeenIn(search, search->at.queue); /* from now on requests that leave it are noticed */
    bool is_asker = search->request == search->asker;
    if (search->is_for_ties) {
        (is_asker ? lookForTiesOfAsker : lookForTies)(search);
    } else {
        (is_asker ? lookForHoldersOfAsker : lookForHolders)(search);
    }
}

/* ---- whether the cycle still exists ---- */

/* Whether the search follows the request in this position. */
static bool isSearched(const struct cyclesearch *search, const struct position *position) {
    return waitgraphHas(position->request) || position->request == search->asker;
}

/* The modes in which the owner at the beginning of this edge waits there, as bits. */
static unsigned modesWanted(const struct cyclesearch *search, const struct cyclepathEdge *edge) {
    const struct waitRequest *of = cyclepathRequest(&search->path, edge->from);
    const struct position *position = waitqueueOfOwner(edge->queue, of->owner, of->owner_length);
    unsigned modes = 0;
    for (; position; position = waitqueueNextOfOwner(position)) {
        if (isSearched(search, position)) {
            modes |= 1U << position->mode;
        }
    }
    return modes;
}

static bool isHeld(const struct cyclesearch *search, const struct cyclepathEdge *edge, size_t by) {
    unsigned modes = modesWanted(search, edge);
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        if ((modes & (1U << mode)) &&
            search->asked.is_holder(edge->queue, (enum lockMode)mode,
                                    cyclepathRequest(&search->path, by), search->asked.context)) {
            return true;
        }
    }
    return false;
}

/* Whether the owner at the beginning of this edge has acquired the lock since, and waits behind no
 * request there with any of its own. */
static bool isHeldNow(const struct cyclesearch *search, const struct cyclepathEdge *edge) {
    const struct waitRequest *of = cyclepathRequest(&search->path, edge->from);
    const struct position *first = waitqueueOfOwner(edge->queue, of->owner, of->owner_length);
    const struct position *position = first;
    while (position && (mayShare(position) || !isSearched(search, position))) {
        position = waitqueueNextOfOwner(position);
    }
    return first && !position && holdsAny(search, first);
}

/* Checks one edge of the cycle: between two calls requests may have left the graph, and holds may
 * have begun and ended. */
static void checkOne(struct cyclesearch *search) {
    const struct cyclepathEdge *edge = search->checked;
    search->work++;
    bool exists =
        edge->behind ? !isHeldNow(search, edge) : isHeld(search, edge, search->checked_to);
    if (cyclepathHasChanged(&search->path, &search->at) || !exists) {
        search->has_to_restart = true;
    } else if (edge->from == 0) {
        search->result = CYCLESEARCH_CYCLE;
    } else {
        search->checked_to = edge->from;
        search->checked = &search->path.reached[edge->from].edge;
    }
}

/* A cycle of up to 64 waits is checked in one step: all of it exists at that moment. */
#define CHECKED_AT_ONCE 64

static void cyclestepsCheck(struct cyclesearch *search) {
    if (!search->was_suspended) {
        search->result = CYCLESEARCH_CYCLE;
        return;
    }
    for (int i = 0; i < CHECKED_AT_ONCE && searchContinues(search); i++) {
        checkOne(search);
    }
}

static void cyclestepsBegin(struct cyclesearch *search) {
    if (!searchAskFirst(search, 1 + search->asker->positions.length)) {
        search->stage = SEARCH_OWNER;
    }
}

void searchOneStep(struct cyclesearch *search) {
    static void (*const steps[])(struct cyclesearch * search) = {
        [SEARCH_BEGIN] = cyclestepsBegin, [SEARCH_OWNER] = takeOwner,
        [SEARCH_POSITION] = takePosition, [SEARCH_HOLDERS] = takeHolders,
        [SEARCH_EACH] = takeEach,         [SEARCH_TIES] = beginTies,
        [SEARCH_TIE] = takeTie,           [SEARCH_WRITERS] = beginWriters,
        [SEARCH_WRITER] = takeWriter,     [SEARCH_CHECK] = cyclestepsCheck};
    if (cycleprecheckIsAsking(&search->waited_for)) {
        searchAskOn(search);
    } else {
        steps[search->stage](search);
    }
}
