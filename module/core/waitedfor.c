/* See waitedfor.h. */
#include "core/waitedfor.h"

#include <string.h>

/* So many positions are looked at, and then somebody may be there. */
#define MOST_LOOKS 200

void waitedforBegin(struct waitedfor *asked, const struct waitgraph *graph,
                    const struct request *newcomer, struct waitedforHolders holders) {
    asked->graph = graph;
    asked->newcomer = newcomer;
    asked->holders = holders;
    asked->next = asked->looks = 0;
    asked->owners[0] = newcomer;
    asked->count = 1;
    asked->answer = WAITEDFOR_GOES_ON;
}

static void giveUp(struct waitedfor *asked) {
    asked->answer = WAITEDFOR_MAYBE;
}

static bool goesOn(const struct waitedfor *asked) {
    return asked->answer == WAITEDFOR_GOES_ON;
}

static bool isOfOneOwner(const struct request *one, const struct request *other) {
    return one->owner_length == other->owner_length &&
           memcmp(one->owner, other->owner, one->owner_length) == 0;
}

static bool isKnown(const struct waitedfor *asked, const struct request *waiting) {
    for (size_t i = 1; i < asked->count; i++) {
        if (isOfOneOwner(waiting, asked->owners[i])) {
            return true;
        }
    }
    return false;
}

/* It may wait for the owner that is asked about. If it is the newcomer's owner, that may wait for
 * itself. */
static void note(struct waitedfor *asked, const struct request *waiting) {
    if (isOfOneOwner(waiting, asked->owners[asked->next]) || isKnown(asked, waiting)) {
        return;
    }
    bool is_newcomers = isOfOneOwner(waiting, asked->newcomer);
    if (is_newcomers || asked->count == WAITEDFOR_MOST_OWNERS) {
        giveUp(asked);
    } else {
        asked->owners[asked->count++] = waiting;
    }
}

/* Looks at a position of somebody who may wait for the owner that is asked about. */
static void lookAt(struct waitedfor *asked, const struct position *position) {
    if (asked->looks++ == MOST_LOOKS) {
        giveUp(asked);
    } else if (waitgraphHas(position->request)) {
        note(asked, position->request);
    }
}

/* ---- holds ---- */

/* Whoever holds a lock and waits for it too stands at its head. So a newcomer who stands last holds
 * it only if nobody else of the graph is there; but for requests for several locks, which may hold
 * some of them. */
static bool isKnownNotToHold(const struct waitedfor *asked, const struct waitqueue *queue) {
    struct position *position = waitqueueFirstOf(asked->newcomer);
    return asked->next == 0 && asked->newcomer->discipline != MULTIKEY &&
           position->queue == queue && waitgraphIsLast(position);
}

size_t waitedforCost(const struct waitedfor *asked) {
    size_t waited = asked->graph->waited.length;
    if (asked->next > 0) {
        return waited + asked->newcomer->positions.length;
    }
    const struct waitqueue *own = waitqueueFirstOf(asked->newcomer)->queue;
    return waited - (own->in_graph > 0 && isKnownNotToHold(asked, own));
}

static bool holds(const struct waitedfor *asked, struct waitqueue *queue, enum lockMode mode) {
    return asked->holders.is_holder(queue, mode, asked->owners[asked->next],
                                    asked->holders.context);
}

static void askAbout(struct waitedfor *asked, struct waitqueue *queue) {
    enum lockMode mode = queue->writers.length > 0 ? MODE_WRITE : MODE_READ;
    if (isKnownNotToHold(asked, queue) || !holds(asked, queue, mode)) {
        return;
    }
    for (const struct position *position = waitqueueFirst(queue); position && goesOn(asked);
         position = waitqueueNext(position)) {
        lookAt(asked, position);
    }
}

static void askAboutHolds(struct waitedfor *asked) {
    for (struct waitqueue *queue = waitgraphFirstWaited(asked->graph); queue && goesOn(asked);
         queue = waitgraphNextWaited(queue)) {
        askAbout(asked, queue);
    }
}

/* ---- positions ---- */

static void lookAtWritersBehind(struct waitedfor *asked, const struct position *position) {
    for (const struct position *writer = waitqueueLastWriter(position->queue);
         writer && writer->order > position->order && goesOn(asked);
         writer = waitqueueWriterBefore(writer)) {
        lookAt(asked, writer);
    }
}

static void lookAtAllBehind(struct waitedfor *asked, const struct position *position) {
    for (const struct position *next = waitqueueNext(position); next && goesOn(asked);
         next = waitqueueNext(next)) {
        lookAt(asked, next);
    }
}

/* An owner's first position counts for all that it asks for there, so only of one that is alone it
 * matters that it is to read. */
static void lookBehind(struct waitedfor *asked, struct position *position) {
    bool is_last = waitgraphHas(position->request)
                       ? position->order >= position->queue->graph_end - 1
                       : waitgraphIsLast(position);
    if (is_last) {
        return;
    }
    if (position->request->mode == MODE_READ && mapIsAlone(&position->by_owner)) {
        lookAtWritersBehind(asked, position);
    } else {
        lookAtAllBehind(asked, position);
    }
}

static void lookBehindAll(struct waitedfor *asked, const struct request *request) {
    for (struct position *position = waitqueueFirstOf(request); position && goesOn(asked);
         position = waitqueueNextOf(position)) {
        lookBehind(asked, position);
    }
}

static void lookBehindOwner(struct waitedfor *asked) {
    const struct request *of = asked->owners[asked->next];
    if (asked->next == 0) {
        lookBehindAll(asked, of);
    }
    for (of = waitgraphFirstOf(asked->graph, of->owner, of->owner_length); of && goesOn(asked);
         of = waitgraphNextOf(of)) {
        if (asked->looks++ == MOST_LOOKS) {
            giveUp(asked);
        } else {
            lookBehindAll(asked, of);
        }
    }
}

/* ---- the newcomer itself ---- */

/* The newcomer is not in the graph: whether it waits for this owner, which then waits for it. */
static void askWhetherNewcomerWaits(struct waitedfor *asked) {
    const struct request *owner = asked->owners[asked->next];
    for (struct position *position = waitqueueFirstOf(asked->newcomer); position && goesOn(asked);
         position = waitqueueNextOf(position)) {
        if (waitqueueOfOwner(position->queue, owner->owner, owner->owner_length) ||
            holds(asked, position->queue, asked->newcomer->mode)) {
            giveUp(asked);
        }
    }
}

void waitedforGoOn(struct waitedfor *asked) {
    if (asked->next > 0) {
        askWhetherNewcomerWaits(asked);
    }
    lookBehindOwner(asked);
    askAboutHolds(asked);
    if (goesOn(asked) && ++asked->next == asked->count) {
        asked->answer = WAITEDFOR_NOBODY;
    }
}
