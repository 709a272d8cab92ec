/* See queuecheck.h. */
#include "core/queuecheck.h"

#include <string.h>

#include "core/waitgraph.h"

/* What a walk over all positions counts, to be compared with the counts that the queue has. */
struct counted {
    size_t positions, multikey, once, ties, in_graph;
    size_t by_mode[MODE_COUNT];
    struct waitqueueOwn own; /* the sum of the counts in the owners' first positions */
};

/* Whether the index finds the position under its owner. Of an owner with many positions only the
 * first are compared: else 10,000 positions of one owner would take a hundred million steps. */
static bool isIndexed(const struct waitqueue *queue, const struct position *position) {
    const size_t most = 64;
    const struct waitRequest *request = position->request;
    const struct position *found = waitqueueOfOwner(queue, request->owner, request->owner_length);
    for (size_t i = 0; found && found != position && i < most; i++) {
        found = waitqueueNextOfOwner(found);
    }
    return found && found->request->owner_length == request->owner_length &&
           memcmp(found->request->owner, request->owner, request->owner_length) == 0;
}

static bool isTiedAsAWhole(const struct position *position) {
    const struct position *other = waitqueueFirstOf(position->request);
    for (; other; other = waitqueueNextOf(other)) {
        if (other->is_tie != position->is_tie) {
            return false;
        }
    }
    return true;
}

static const char *positionFault(const struct waitqueue *queue, const struct position *position) {
    if (position->queue != queue || !position->request) {
        return "a position that belongs to another queue, or to no request";
    }
    const struct position *next = waitqueueNext(position);
    const struct position *own = waitqueueNextOfOwner(position);
    if ((next && next->order <= position->order) || (own && own->order <= position->order)) {
        return "positions that are out of order";
    }
    if (position->mode >= MODE_COUNT) {
        return "a position of no mode";
    }
    if (!isIndexed(queue, position)) {
        return "a position that its owner's name does not lead to";
    }
    bool is_in_graph = waitgraphHas(position->request);
    if (is_in_graph && position->request->is_newcomer) {
        return "a request that has been searched from, and is to be searched from";
    }
    if (is_in_graph && position->order >= queue->graph_end) {
        return "a position of the graph past the graph's end";
    }
    if (position->is_tie && (!is_in_graph || !isTiedAsAWhole(position))) {
        return "a tie whose request is none, or has not been searched from";
    }
    return NULL;
}

static void queuecheckCountOwn(struct counted *counted, const struct position *position) {
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        counted->own.by_mode[mode] += position->own.by_mode[mode];
    }
    counted->own.multikey += position->own.multikey;
}

static void countPosition(struct counted *counted, const struct position *position) {
    counted->positions++;
    counted->by_mode[position->mode]++;
    counted->multikey += position->request->discipline == MULTIKEY;
    counted->once += position->request->once;
    counted->ties += position->is_tie;
    counted->in_graph += waitgraphHas(position->request);
    if (!position->by_owner.older) {
        queuecheckCountOwn(counted, position);
    }
}

static const char *countFault(const struct waitqueue *queue, const struct counted *counted) {
    if (counted->positions != queue->positions.length ||
        counted->positions != queue->by_owner.used) {
        return "another number of positions than of links, or of owners' names";
    }
    if (memcmp(counted->by_mode, queue->by_mode, sizeof(counted->by_mode)) != 0 ||
        counted->multikey != queue->multikey || counted->once != queue->once) {
        return "another number of positions of a kind than was counted";
    }
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        if (counted->own.by_mode[mode] != queue->by_mode[mode]) {
            return "another number of positions of a mode than their owners have";
        }
    }
    if (counted->own.multikey != queue->multikey) {
        return "another number of positions for several keys than their owners have";
    }
    if (counted->ties != queue->ties.length || counted->in_graph != queue->in_graph) {
        return "another number of ties, or of positions in the graph, than was counted";
    }
    return NULL;
}

/* Whether `writers` has all positions that exclude readers and no others, in the order of
 * `positions`. If not, returns what is wrong. */
static const char *writersFault(const struct waitqueue *queue) {
    const struct link *writer = queue->writers.first;
    for (const struct position *position = waitqueueFirst(queue); position;
         position = waitqueueNext(position)) {
        if (rulesConflict(position->mode, MODE_READ)) {
            if (writer != &position->in_writers) {
                return "writers in another order than all positions";
            }
            writer = writer->next;
        }
    }
    return writer ? "a writer that has no position" : NULL;
}

/* The same for `candidates`, which has all positions that do not stand aside. */
static const char *candidatesFault(const struct waitqueue *queue) {
    const struct link *candidate = queue->candidates.first;
    for (const struct position *position = waitqueueFirst(queue); position;
         position = waitqueueNext(position)) {
        if (position->is_aside && position->mode != MODE_READ) {
            return "a position that stands aside though it excludes readers";
        }
        if (!position->is_aside) {
            if (candidate != &position->in_candidates) {
                return "candidates in another order than all positions";
            }
            candidate = candidate->next;
        }
    }
    return candidate ? "a candidate that has no position" : NULL;
}

const char *queuecheckFault(const struct waitqueue *queue) {
    struct counted counted = {0};
    for (const struct position *position = waitqueueFirst(queue); position;
         position = waitqueueNext(position)) {
        const char *fault = positionFault(queue, position);
        if (fault) {
            return fault;
        }
        countPosition(&counted, position);
    }
    const char *fault = countFault(queue, &counted);
    if (!fault) {
        fault = writersFault(queue);
    }
    return fault ? fault : candidatesFault(queue);
}
