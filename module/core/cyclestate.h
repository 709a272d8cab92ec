/* The state of a search for cycles (cyclesearch.h) between two steps. Only for cyclesearch.c,
 * cyclesteps.c and cyclereach.c, except for struct cyclesearchAsked and enum cyclesearchResult. */
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

/* The callbacks of a search. The caller, which knows the holds, provides them. */
struct cyclesearchAsked {
    /* Calls cyclesearchReach for each owner that holds the lock of this queue in a mode that
     * conflicts with `mode`, or makes the search test each request by cyclesearchEachRequest. */
    void (*holders)(struct cyclesearch *search, struct waitqueue *queue, enum lockMode mode,
                    void *context);
    cycleprecheckIsHolder is_holder;
    /* As `is_holder`, for the pre-check (cycleprecheck.h). May return true for an owner that does
     * not hold the lock. */
    cycleprecheckIsHolder may_be_holder;
    void *context; /* must outlive the search */
};

enum cyclesearchResult {
    CYCLESEARCH_CONTINUES,
    CYCLESEARCH_NO_CYCLE,
    CYCLESEARCH_CYCLE,   /* the cycle is in struct cyclesearchFound */
    CYCLESEARCH_GAVE_UP, /* the bound on the number of steps was reached */
    CYCLESEARCH_LEFT     /* the asker has stopped waiting */
};

/* What the next step does. */
enum searchStage {
    SEARCH_BEGIN,
    SEARCH_OWNER,    /* takes the next owner to expand */
    SEARCH_POSITION, /* takes the next position of the owner */
    SEARCH_HOLDERS,  /* finds the holders of the lock of this position */
    SEARCH_EACH,     /* finds the holders by testing one request after the other */
    SEARCH_TIES,     /* begins with the ties ahead in the queue */
    SEARCH_TIE,
    SEARCH_WRITERS,
    SEARCH_WRITER,
    SEARCH_CHECK /* checks whether a cycle that has been found still exists */
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
    size_t pause_at; /* the value of `work` at which cyclesearchContinue returns */
    size_t work;     /* all work done, including work that is not counted as steps */
    struct cycleprecheck waited_for; /* the pre-check, whose answer may end the search */
    size_t asked_about;              /* steps of the pre-check, which `most` does not limit */
    /* If not 0, `holders` was not allowed to take this many steps, and must be called again. */
    size_t postponed;
    struct cyclepath path;
    /* How many owners of the path have been expanded along holders, and how many along ties. */
    size_t held, tied;
    bool is_for_ties;
    /* What is being expanded: an owner and a queue (`at`), one request of the owner, the position
     * of that request, and the mode that is requested. */
    struct cyclepathEdge at;
    const struct waitRequest *request;
    struct position *position;
    enum lockMode mode;
    /* The order that is used for the owner in this queue, which is the order of its first position;
     * INT64_MAX for the asker if the asker is last. */
    int64_t order;
    size_t steps_of_each;    /* in SEARCH_EACH */
    struct position *writer; /* in SEARCH_WRITER */
    /* In SEARCH_CHECK: the edge that is checked next, and the owner to which it leads. */
    const struct cyclepathEdge *checked;
    size_t checked_to;
};

#endif
