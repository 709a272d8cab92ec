/* See queuecheck.h. */
#include "core/queuecheck.h"

#include <string.h>

#include "core/waitgraph.h"

/* What a walk over all places counts, to be compared with what the queue has counted. */
struct counted {
    size_t places, joint, ties, in_graph;
    size_t by_mode[MODE_COUNT];
};

/* Whether the index finds the place under its owner. Of an owner with many places only the first are
 * looked at, so that ten thousand of one owner cost no hundred million steps. */
static bool isIndexed(const struct waitqueue *queue, const struct place *place) {
    const size_t most = 64;
    const struct request *request = place->request;
    const struct place *found = waitqueueOfOwner(queue, request->owner, request->owner_length);
    for (size_t i = 0; found && found != place && i < most; i++) {
        found = waitqueueNextOfOwner(found);
    }
    return found && found->request->owner_length == request->owner_length &&
           memcmp(found->request->owner, request->owner, request->owner_length) == 0;
}

static bool isTiedAsAWhole(const struct place *place) {
    const struct place *other = waitqueueFirstOf(place->request);
    for (; other; other = waitqueueNextOf(other)) {
        if (other->is_tie != place->is_tie) {
            return false;
        }
    }
    return true;
}

static const char *placeFault(const struct waitqueue *queue, const struct place *place) {
    if (place->queue != queue || !place->request) {
        return "a place that belongs to another queue, or to no request";
    }
    const struct place *next = waitqueueNext(place);
    if (next && next->order <= place->order) {
        return "places that are out of order";
    }
    if (place->request->mode >= MODE_COUNT) {
        return "a request for no mode";
    }
    if (!isIndexed(queue, place)) {
        return "a place that its owner's name does not lead to";
    }
    bool is_in_graph = waitgraphHas(place->request);
    if (is_in_graph && place->request->is_newcomer) {
        return "a request that has been searched from, and is to be searched from";
    }
    if (is_in_graph && place->order >= queue->graph_end) {
        return "a place of the graph past the graph's end";
    }
    if (place->is_tie && (!is_in_graph || !isTiedAsAWhole(place))) {
        return "a tie whose request is none, or has not been searched from";
    }
    return NULL;
}

static void countPlace(struct counted *counted, const struct place *place) {
    counted->places++;
    counted->by_mode[place->request->mode]++;
    counted->joint += place->request->discipline == JOINT;
    counted->ties += place->is_tie;
    counted->in_graph += waitgraphHas(place->request);
}

static const char *countFault(const struct waitqueue *queue, const struct counted *counted) {
    if (counted->places != queue->places.length || counted->places != queue->by_owner.used) {
        return "another number of places than of links, or of owners' names";
    }
    if (memcmp(counted->by_mode, queue->by_mode, sizeof(counted->by_mode)) != 0 ||
        counted->joint != queue->joint) {
        return "another number of places of a kind than was counted";
    }
    if (counted->ties != queue->ties.length || counted->in_graph != queue->in_graph) {
        return "another number of ties, or of places in the graph, than was counted";
    }
    return NULL;
}

/* The list of those that exclude readers is the list of all without the others. */
static const char *writersFault(const struct waitqueue *queue) {
    const struct link *writer = queue->writers.first;
    for (const struct place *place = waitqueueFirst(queue); place; place = waitqueueNext(place)) {
        if (rulesConflict(place->request->mode, MODE_READ)) {
            if (writer != &place->in_writers) {
                return "writers in another order than all places";
            }
            writer = writer->next;
        }
    }
    return writer ? "a writer that has no place" : NULL;
}

const char *queuecheckFault(const struct waitqueue *queue) {
    struct counted counted = {0};
    for (const struct place *place = waitqueueFirst(queue); place; place = waitqueueNext(place)) {
        const char *fault = placeFault(queue, place);
        if (fault) {
            return fault;
        }
        countPlace(&counted, place);
    }
    const char *fault = countFault(queue, &counted);
    return fault ? fault : writersFault(queue);
}
