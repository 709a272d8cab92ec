/* See cyclepath.h. */
#include "core/cyclepath.h"

#include <string.h>

#include "core/mem.h"

void cyclepathBegin(struct cyclepath *path, const struct waitRequest *asker,
                    struct waitRequest *own) {
    path->asker = asker;
    path->reached = path->few;
    path->room = CYCLEPATH_AT_FIRST;
    path->reached[0] = (struct cyclepathReached){.first = own};
    path->count = 1;
}

void cyclepathEnd(struct cyclepath *path) {
    if (path->reached != path->few) {
        memFree(path->reached);
    }
}

static void cyclepathMakeRoom(struct cyclepath *path) {
    struct cyclepathReached *larger = memAlloc(2 * path->room * sizeof(*larger));
    memcpy(larger, path->reached, path->count * sizeof(*larger));
    cyclepathEnd(path);
    path->reached = larger;
    path->room *= 2;
}

size_t cyclepathAdd(struct cyclepath *path, struct waitRequest *first,
                    const struct cyclepathEdge *edge) {
    if (path->count == path->room) {
        cyclepathMakeRoom(path);
    }
    path->reached[path->count] = (struct cyclepathReached){.first = first, .edge = *edge};
    return path->count++;
}

void cyclepathLeave(struct cyclepath *path, size_t owner, struct waitRequest *first) {
    path->reached[owner].first = first;
    path->reached[owner].has_changed = true;
}

bool cyclepathHasChanged(const struct cyclepath *path, const struct cyclepathEdge *last) {
    size_t owner = last->from;
    while (owner != 0 && !path->reached[owner].has_changed) {
        owner = path->reached[owner].edge.from;
    }
    return path->reached[owner].has_changed;
}

const struct waitRequest *cyclepathRequest(const struct cyclepath *path, size_t owner) {
    return owner == 0 ? path->asker : path->reached[owner].first;
}

static size_t lengthTo(const struct cyclepath *path, size_t owner) {
    size_t length = 0;
    for (; owner != 0; owner = path->reached[owner].edge.from) {
        length++;
    }
    return length;
}

struct cyclepathCycle *cyclepathCycle(const struct cyclepath *path,
                                      const struct cyclepathEdge *last) {
    size_t at = lengthTo(path, last->from) + 1;
    struct cyclepathCycle *cycle = memAlloc(sizeof(*cycle) + at * sizeof(cycle->steps[0]));
    cycle->length = at;
    for (const struct cyclepathEdge *edge = last; at-- > 0;
         edge = &path->reached[edge->from].edge) {
        const struct waitRequest *of = cyclepathRequest(path, edge->from);
        cycle->steps[at] =
            (struct cyclepathStep){of->owner, of->owner_length, edge->queue, edge->behind};
    }
    return cycle;
}
