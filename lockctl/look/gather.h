/* Taking a sample: asking all nodes for what a screen, or one look, shows. */
#ifndef LOCKCTL_GATHER_H
#define LOCKCTL_GATHER_H

#include "look/detail.h"
#include "look/nodes.h"
#include "look/sample.h"

struct gather {
    struct nodes nodes;
    struct sample now, before;
    struct detail detail;
    char *error; /* of a node that answered by one, or NULL */
};

void gatherOpen(struct gather *gather, struct event_base *base, const struct lookOrder *order);
void gatherClose(struct gather *gather);

/* Takes the next sample; what was `now` is `before` afterwards. */
void gatherSample(struct gather *gather);

/* Asks who holds the locks from `first` on, `count` of them, and, unless `selected` is (size_t)-1, for the
 * detail of that one. */
void gatherHolders(struct gather *gather, size_t first, size_t count, size_t selected);

#endif
