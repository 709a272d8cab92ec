/* See cycleprecheck.h. */
#include "core/cycleprecheck.h"

/* After this many positions the answer is CYCLEPRECHECK_MAYBE. */
#define MOST_LOOKS 200

/* This many positions of the examined owner itself count as one of those. */
#define OWN_A_LOOK 64

void cycleprecheckBegin(struct cycleprecheck *asked, struct waitgraph *graph,
                        const struct waitRequest *newcomer, struct cycleprecheckHolders holders) {
    asked->graph = graph;
    asked->newcomer = newcomer;
    asked->holders = holders;
    asked->stage = CYCLEPRECHECK_NEXT_OWNER;
    asked->next = asked->looks = 0;
    asked->owners[0] = newcomer;
    asked->count = 1;
    asked->answer = CYCLEPRECHECK_CONTINUES;
}

static void cycleprecheckGiveUp(struct cycleprecheck *asked) {
    asked->answer = CYCLEPRECHECK_MAYBE;
}

static bool continues(const struct cycleprecheck *asked) {
    return asked->answer == CYCLEPRECHECK_CONTINUES;
}

static bool isKnown(const struct cycleprecheck *asked, const struct waitRequest *waiting) {
    for (size_t i = 1; i < asked->count; i++) {
        if (waitqueueSameOwner(waiting, asked->owners[i])) {
            return true;
        }
    }
    return false;
}

/* The owner of `waiting` may wait for the examined owner: it is to be examined too. If it is the
 * newcomer's owner, the newcomer may wait for itself. */
static void note(struct cycleprecheck *asked, const struct waitRequest *waiting) {
    if (waitqueueSameOwner(waiting, asked->owners[asked->next]) || isKnown(asked, waiting)) {
        return;
    }
    bool is_newcomers = waitqueueSameOwner(waiting, asked->newcomer);
    if (is_newcomers || asked->count == CYCLEPRECHECK_MOST_OWNERS) {
        cycleprecheckGiveUp(asked);
    } else {
        asked->owners[asked->count++] = waiting;
    }
}

/* Looks at a position whose owner may wait for the examined owner. */
static void cycleprecheckLookAt(struct cycleprecheck *asked, const struct position *position) {
    if (asked->looks++ == MOST_LOOKS) {
        cycleprecheckGiveUp(asked);
    } else if (waitgraphHas(position->request)) {
        note(asked, position->request);
    }
}

/* ---- holds ---- */

/* Whether it is certain that the newcomer does not hold this lock. An owner that holds a lock and
 * also waits for it is at the head of the queue. So a newcomer that is last in the queue holds the
 * lock only if no request of the graph is there. Requests for several locks are an exception: they
 * may hold some of them. */
static bool isKnownNotToHold(const struct cycleprecheck *asked, const struct waitqueue *queue) {
    struct position *position = waitqueueFirstOf(asked->newcomer);
    return asked->next == 0 && asked->newcomer->discipline != MULTIKEY &&
           position->queue == queue && waitgraphIsLast(position);
}

bool cycleprecheckIsAsking(const struct cycleprecheck *asked) {
    return continues(asked) && asked->stage != CYCLEPRECHECK_NEXT_OWNER;
}

size_t cycleprecheckCost(const struct cycleprecheck *asked) {
    if (cycleprecheckIsAsking(asked)) {
        return 0;
    }
    size_t waited = asked->graph->waited.length;
    if (asked->next > 0) {
        return waited + asked->newcomer->positions.length;
    }
    const struct waitqueue *own = waitqueueFirstOf(asked->newcomer)->queue;
    return waited - (own->in_graph > 0 && isKnownNotToHold(asked, own));
}

static bool holds(const struct cycleprecheck *asked, struct waitqueue *queue, enum lockMode mode) {
    return asked->holders.is_holder(queue, mode, asked->owners[asked->next],
                                    asked->holders.context);
}

static void askAbout(struct cycleprecheck *asked, struct waitqueue *queue) {
    enum lockMode mode = queue->writers.length > 0 ? MODE_WRITE : MODE_READ;
    if (isKnownNotToHold(asked, queue) || !holds(asked, queue, mode)) {
        return;
    }
    for (const struct position *position = waitqueueFirst(queue); position && continues(asked);
         position = waitqueueNext(position)) {
        cycleprecheckLookAt(asked, position);
    }
}

/* ---- positions ---- */

static void lookAtWritersBehind(struct cycleprecheck *asked, const struct position *position) {
    for (const struct position *writer = waitqueueLastWriter(position->queue);
         writer && writer->order > position->order && continues(asked);
         writer = waitqueueWriterBefore(writer)) {
        cycleprecheckLookAt(asked, writer);
    }
}

static void lookAtAllBehind(struct cycleprecheck *asked, const struct position *position) {
    for (const struct position *next = waitqueueNext(position); next && continues(asked);
         next = waitqueueNext(next)) {
        cycleprecheckLookAt(asked, next);
    }
}

/* The first position of an owner counts for all its requests in the queue. So only if it is the
 * owner's only position does it matter that it is a reader's. */
static void lookBehind(struct cycleprecheck *asked, struct position *position) {
    bool is_last = waitgraphHas(position->request)
                       ? position->order >= position->queue->graph_end - 1
                       : waitgraphIsLast(position);
    if (is_last) {
        return;
    }
    if (position->mode == MODE_READ && mapIsAlone(&position->by_owner)) {
        lookAtWritersBehind(asked, position);
    } else {
        lookAtAllBehind(asked, position);
    }
}

static void lookBehindAll(struct cycleprecheck *asked, const struct waitRequest *request) {
    for (struct position *position = waitqueueFirstOf(request); position && continues(asked);
         position = waitqueueNextOf(position)) {
        lookBehind(asked, position);
    }
}

static void lookBehindRequest(struct cycleprecheck *asked, const struct waitRequest *request) {
    asked->looks += 1 + request->positions.length / OWN_A_LOOK;
    if (asked->looks > MOST_LOOKS) {
        cycleprecheckGiveUp(asked);
    } else {
        lookBehindAll(asked, request);
    }
}

static void lookBehindOwner(struct cycleprecheck *asked) {
    const struct waitRequest *of = asked->owners[asked->next];
    if (asked->next == 0) {
        lookBehindAll(asked, of);
    }
    for (of = waitgraphFirstOf(asked->graph, of->owner, of->owner_length); of && continues(asked);
         of = waitgraphNextOf(of)) {
        lookBehindRequest(asked, of);
    }
}

/* ---- the newcomer itself ---- */

/* Whether the newcomer waits here for the examined owner, which waits for the newcomer. This is
 * tested separately, because the newcomer is not in the graph. */
static void askWhetherNewcomerWaits(struct cycleprecheck *asked, struct position *position) {
    const struct waitRequest *owner = asked->owners[asked->next];
    if (waitqueueOfOwner(position->queue, owner->owner, owner->owner_length) ||
        holds(asked, position->queue, position->mode)) {
        cycleprecheckGiveUp(asked);
    }
}

/* ---- the steps ---- */

static void beginOwner(struct cycleprecheck *asked) {
    asked->position = asked->next > 0 ? waitqueueFirstOf(asked->newcomer) : NULL;
    asked->stage = asked->position ? CYCLEPRECHECK_NEWCOMER : CYCLEPRECHECK_POSITIONS;
}

static void stepOfNewcomer(struct cycleprecheck *asked) {
    askWhetherNewcomerWaits(asked, asked->position);
    asked->position = waitqueueNextOf(asked->position);
    if (!asked->position) {
        asked->stage = CYCLEPRECHECK_POSITIONS;
    }
}

static void stepOfHolds(struct cycleprecheck *asked) {
    struct waitqueue *queue = waitgraphNextWaited(asked->graph);
    if (queue) {
        askAbout(asked, queue);
        return;
    }
    asked->stage = CYCLEPRECHECK_NEXT_OWNER;
    if (++asked->next == asked->count) {
        asked->answer = CYCLEPRECHECK_NOBODY;
    }
}

void cycleprecheckContinue(struct cycleprecheck *asked) {
    switch (asked->stage) {
    case CYCLEPRECHECK_NEXT_OWNER:
        beginOwner(asked);
        break;
    case CYCLEPRECHECK_NEWCOMER:
        stepOfNewcomer(asked);
        break;
    case CYCLEPRECHECK_POSITIONS:
        lookBehindOwner(asked);
        waitgraphWalkWaited(asked->graph);
        asked->stage = CYCLEPRECHECK_HOLDS;
        break;
    case CYCLEPRECHECK_HOLDS:
        stepOfHolds(asked);
        break;
    }
}

/* If this request represents its owner among those to be examined, the owner may still wait with
 * another request: the answer is CYCLEPRECHECK_MAYBE. */
void cycleprecheckLeave(struct cycleprecheck *asked, const struct waitRequest *request) {
    for (size_t i = 1; i < asked->count && continues(asked); i++) {
        if (asked->owners[i] == request) {
            cycleprecheckGiveUp(asked);
        }
    }
}
