/* See waitpath.h. */
#include "core/waitpath.h"

#include <string.h>

#include "core/mem.h"

void waitpathBegin(struct waitpath *path, const struct request *asker, struct request *own) {
    path->asker = asker;
    path->reached = path->few;
    path->room = WAITPATH_AT_FIRST;
    path->reached[0] = (struct waitpathReached){.first = own};
    path->count = 1;
}

void waitpathEnd(struct waitpath *path) {
    if (path->reached != path->few) {
        memFree(path->reached);
    }
}

static void makeRoom(struct waitpath *path) {
    struct waitpathReached *larger = memAlloc(2 * path->room * sizeof(*larger));
    memcpy(larger, path->reached, path->count * sizeof(*larger));
    waitpathEnd(path);
    path->reached = larger;
    path->room *= 2;
}

size_t waitpathAdd(struct waitpath *path, struct request *first, const struct waitpathEdge *edge) {
    if (path->count == path->room) {
        makeRoom(path);
    }
    path->reached[path->count] = (struct waitpathReached){.first = first, .edge = *edge};
    return path->count++;
}

void waitpathLeave(struct waitpath *path, size_t owner, struct request *first) {
    path->reached[owner].first = first;
    path->reached[owner].has_changed = true;
}

bool waitpathHasChanged(const struct waitpath *path, const struct waitpathEdge *last) {
    size_t owner = last->from;
    while (owner != 0 && !path->reached[owner].has_changed) {
        owner = path->reached[owner].edge.from;
    }
    return path->reached[owner].has_changed;
}

const struct request *waitpathRequest(const struct waitpath *path, size_t owner) {
    return owner == 0 ? path->asker : path->reached[owner].first;
}

static size_t lengthTo(const struct waitpath *path, size_t owner) {
    size_t length = 0;
    for (; owner != 0; owner = path->reached[owner].edge.from) {
        length++;
    }
    return length;
}

struct waitpathCycle *waitpathCycle(const struct waitpath *path, const struct waitpathEdge *last) {
    size_t at = lengthTo(path, last->from) + 1;
    struct waitpathCycle *cycle = memAlloc(sizeof(*cycle) + at * sizeof(cycle->steps[0]));
    cycle->length = at;
    for (const struct waitpathEdge *edge = last; at-- > 0; edge = &path->reached[edge->from].edge) {
        const struct request *of = waitpathRequest(path, edge->from);
        cycle->steps[at] =
            (struct waitpathStep){of->owner, of->owner_length, edge->queue, edge->behind};
    }
    return cycle;
}
