/* What a search for cycles (waitsearch.h) knows between two steps. For the files search*.c alone, but
 * for struct waitsearchAsked.
 */
#ifndef LOCK_SEARCHSTATE_H
#define LOCK_SEARCHSTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/rules.h"
#include "core/waitedfor.h"
#include "core/waitgraph.h"
#include "core/waitpath.h"
#include "core/waitqueue.h"

struct waitsearch;

/* What the search asks of whoever knows the holds. */
struct waitsearchAsked {
    /* Tells the search, by waitsearchReach, which owners hold the lock of this queue in a mode that
     * conflicts with `mode`; or has it ask each request, by waitsearchEachRequest. */
    void (*holders)(struct waitsearch *search, struct waitqueue *queue, enum lockMode mode,
                    void *context);
    waitedforIsHolder is_holder;
    /* The same, to find out that nobody waits for the asker: may be true of who is no holder. */
    waitedforIsHolder may_be_holder;
    void *context; /* outlives the search */
};

enum waitsearchResult {
    WAITSEARCH_GOES_ON,
    WAITSEARCH_NO_CYCLE,
    WAITSEARCH_CYCLE,   /* `cycle` tells it, the asker first */
    WAITSEARCH_GAVE_UP, /* more than the given number of steps would have been needed */
    WAITSEARCH_LEFT     /* the asker does not wait any more */
};

/* What the next step does. */
enum searchStage {
    SEARCH_BEGIN,
    SEARCH_OWNER,    /* takes the next owner to look from */
    SEARCH_POSITION, /* takes the next of its positions */
    SEARCH_HOLDERS,  /* who holds the lock that is wanted there */
    SEARCH_EACH,     /* the same, by asking one request after the other */
    SEARCH_TIES,     /* begins with who stands ahead there */
    SEARCH_TIE,
    SEARCH_WRITERS,
    SEARCH_WRITER,
    SEARCH_CHECK /* a cycle has been found: whether it is there still */
};

struct waitsearch {
    struct waitgraph *graph;
    const struct request *asker;
    struct waitsearchAsked asked;
    enum waitsearchResult result;
    enum searchStage stage;
    bool goes_ahead; /* the asker stands ahead of others */
    bool was_suspended;
    bool has_to_restart;
    size_t steps, most;
    size_t pause_at;             /* in units of `work`: when waitsearchGoOn returns */
    size_t work;                 /* what has been done, steps or not */
    struct waitedfor waited_for; /* that its answer may end the search */
    size_t asked_about;          /* in steps, which `most` does not limit */
    size_t postponed; /* that many steps: what is being looked at is to be looked at after that */
    struct waitpath path;
    /* How many owners of the path have been looked from, for holders and for ties. */
    size_t held, tied;
    bool is_for_ties;
    /* What is being looked at: an owner, its request and position, where that is, for which mode. */
    struct waitpathEdge at;
    const struct request *request;
    struct position *position;
    enum lockMode mode;
    int64_t order;           /* of the position, of those of its owner the first; or of the asker */
    size_t steps_of_each;    /* in SEARCH_EACH */
    struct position *writer; /* in SEARCH_WRITER */
    const struct waitpathEdge *checked; /* in SEARCH_CHECK; it leads to `checked_to` */
    size_t checked_to;
};

#endif
