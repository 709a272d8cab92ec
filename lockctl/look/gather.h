/* Takes a sample: requests from all nodes the data for the screen, or for one output. */
#ifndef LOCKCTL_GATHER_H
#define LOCKCTL_GATHER_H

#include "look/detail.h"
#include "look/nodes.h"
#include "look/sample.h"

struct gather {
    struct nodes nodes;
    struct sample now, before;
    struct detail detail;
    char *error; /* the error that a node replied, or NULL */
};

void gatherOpen(struct gather *gather, struct event_base *base, const struct lookOrder *order);
void gatherClose(struct gather *gather);

/* Takes the next sample. The previous `now` becomes `before`. */
void gatherSample(struct gather *gather);

/* Requests the holders of `count` locks from `first` on, and the detail of the lock `selected`,
 * unless that is (size_t)-1. */
void gatherHolders(struct gather *gather, size_t first, size_t count, size_t selected);

#endif
