/* What a search for cycles (cyclesearch.h) knows between two steps. Only for cyclesearch.c and the
 * files search*.c, except for struct cyclesearchAsked and enum cyclesearchResult. */
#ifndef LOCK_CYCLESTATE_H
#define LOCK_CYCLESTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cyclepath.h"
#include "core/cycleprecheck.h"
#include "core/rules.h"
#include "core/waitgraph.h"
#include "core/waitqueue.h"

struct cyclesearch;

/* The callbacks of a search, of the caller that knows the holds. */
struct cyclesearchAsked {
    /* Reports to the search, by cyclesearchReach, which owners hold the lock of this queue in a
     * mode that conflicts with `mode`; or has it test each request, by cyclesearchEachRequest. */
    void (*holders)(struct cyclesearch *search, struct waitqueue *queue, enum lockMode mode,
                    void *context);
    cycleprecheckIsHolder is_holder;
    /* The same for the pre-check (cycleprecheck.h): may be true of an owner that is no holder. */
    cycleprecheckIsHolder may_be_holder;
    void *context; /* must outlive the search */
};

enum cyclesearchResult {
    CYCLESEARCH_CONTINUES,
    CYCLESEARCH_NO_CYCLE,
    CYCLESEARCH_CYCLE,   /* it is in `cycle` of struct cyclesearchFound */
    CYCLESEARCH_GAVE_UP, /* the bound on the number of steps was reached */
    CYCLESEARCH_LEFT     /* the asker has stopped waiting */
};

/* What the next step does. */
enum searchStage {
    SEARCH_BEGIN,
    SEARCH_OWNER,    /* takes the next owner to expand */
    SEARCH_POSITION, /* takes the next of its positions */
    SEARCH_HOLDERS,  /* finds the holders of the lock that is wanted there */
    SEARCH_EACH,     /* the same, by testing one request after the other */
    SEARCH_TIES,     /* begins with the ties ahead in that queue */
    SEARCH_TIE,
    SEARCH_WRITERS,
    SEARCH_WRITER,
    SEARCH_CHECK /* a cycle has been found: checks whether it still exists */
};

struct cyclesearch {
    struct waitgraph *graph;
    const struct waitRequest *asker;
    struct cyclesearchAsked asked;
    enum cyclesearchResult result;
    enum searchStage stage;
    bool goes_ahead; /* the asker is ahead of other requests */
    bool was_suspended;
    bool has_to_restart;
    size_t steps, most;
    size_t pause_at;                 /* the value of `work` at which cyclesearchContinue returns */
    size_t work;                     /* all work done, whether it counts as steps or not */
    struct cycleprecheck waited_for; /* the pre-check, whose answer may end the search */
    size_t asked_about;              /* steps of the pre-check, which `most` does not limit */
    /* If not 0, `holders` did not take these many steps, and is to be called again. */
    size_t postponed;
    struct cyclepath path;
    /* How many owners of the path have been expanded, along holders and along ties. */
    size_t held, tied;
    bool is_for_ties;
    /* What is being expanded: an owner, one of its requests, the position of that and its queue,
     * and the mode that is requested there. */
    struct cyclepathEdge at;
    const struct waitRequest *request;
    struct position *position;
    enum lockMode mode;
    /* The order at which the owner counts in this queue: that of its first position; for the asker
     * INT64_MAX if it is last. */
    int64_t order;
    size_t steps_of_each;    /* in SEARCH_EACH */
    struct position *writer; /* in SEARCH_WRITER */
    /* In SEARCH_CHECK: the edge that is checked next. It leads to the owner `checked_to`. */
    const struct cyclepathEdge *checked;
    size_t checked_to;
};

#endif
