/* See cyclesearch.h. The steps are in cyclesteps.c. */
#include "core/cyclesearch.h"

#include "core/cyclesteps.h"
#include "core/mem.h"

/* Begins an attempt, which has reached no owner, with a new pre-check. */
static void start(struct cyclesearch *search) {
    struct waitgraph *graph = search->graph;
    const struct waitRequest *asker = search->asker;
    graph->searches++;
    cycleprecheckBegin(
        &search->waited_for, graph, asker,
        (struct cycleprecheckHolders){search->asked.may_be_holder, search->asked.context});
    cyclepathBegin(&search->path, asker,
                   waitgraphFirstOf(graph, asker->owner, asker->owner_length));
}

void cyclesearchBegin(struct waitgraph *graph, const struct waitRequest *asker,
                      const struct cyclesearchAsked *asked, size_t most) {
    struct cyclesearch *search = memAlloc(sizeof(*search));
    *search = (struct cyclesearch){.graph = graph, .asker = asker, .asked = *asked, .most = most};
    graph->search = search;
    start(search);
    if (waitgraphAsksForNothingNew(asker)) {
        search->result = CYCLESEARCH_NO_CYCLE;
    }
}

/* What each restart costs at least, in steps: so a search ends even if positions move between any
 * two time slices. */
#define STEPS_AN_ATTEMPT 16

static void restart(struct cyclesearch *search) {
    search->has_to_restart = false;
    if (search->most - search->steps < STEPS_AN_ATTEMPT) {
        search->result = CYCLESEARCH_GAVE_UP;
        return;
    }
    search->steps += STEPS_AN_ATTEMPT;
    search->was_suspended = false;
    search->goes_ahead = false;
    search->held = search->tied = search->postponed = 0;
    search->writer = NULL;
    search->stage = SEARCH_BEGIN;
    cyclepathEnd(&search->path);
    start(search);
}

bool cyclesearchContinue(struct waitgraph *graph, size_t steps) {
    struct cyclesearch *search = graph->search;
    size_t pause_at = search->work + steps;
    while (search->result == CYCLESEARCH_CONTINUES && search->work < pause_at) {
        if (search->has_to_restart) {
            restart(search);
        } else {
            searchOneStep(search);
        }
    }
    search->was_suspended = true;
    return cyclesearchHasEnded(graph);
}

bool cyclesearchHasEnded(const struct waitgraph *graph) {
    return graph->search->result != CYCLESEARCH_CONTINUES;
}

struct cyclesearchFound cyclesearchEnd(struct waitgraph *graph) {
    struct cyclesearch *search = graph->search;
    struct cyclesearchFound found = {.result = search->result,
                                     .steps = search->steps + search->asked_about};
    if (found.result == CYCLESEARCH_CYCLE) {
        found.cycle = cyclepathCycle(&search->path, &search->at);
    }
    cyclepathEnd(&search->path);
    memFree(search);
    graph->search = NULL;
    graph->next = (struct waitgraphWalks){0};
    return found;
}

/* ---- changes between two calls ---- */

/* If the owner of a request that leaves has been reached, another of its requests represents it
 * from now on. */
static void leavePath(struct cyclesearch *search, struct waitRequest *request) {
    struct waitRequest *first =
        waitgraphFirstOf(search->graph, request->owner, request->owner_length);
    bool is_asker = searchIsAsker(search, request->owner, request->owner_length);
    if (!is_asker && !searchHasReached(search, first)) {
        return;
    }
    size_t number = is_asker ? 0 : first->reached_as;
    struct waitRequest *heir = first == request ? waitgraphNextOf(request) : first;
    cyclepathLeave(&search->path, number, heir);
    if (heir && !is_asker) {
        heir->reached_in = search->graph->searches;
        heir->reached_as = number;
    }
}

static void passWriter(struct cyclesearch *search, const struct position *position) {
    if (search->writer == position) {
        search->writer = waitqueueWriterBefore(search->writer);
    }
}

/* Whether owners were not reached because this one leads to the same owners and is still to be
 * expanded. */
static bool standsForOthers(const struct cyclesearch *search, const struct waitRequest *request) {
    const struct waitRequest *first =
        waitgraphFirstOf(search->graph, request->owner, request->owner_length);
    return searchHasReached(search, first) && first->reached_as >= search->tied &&
           search->path.reached[first->reached_as].stands_for_others;
}

/* Whether the owner of a request that leaves may have edges that the search has not seen, because
 * it also waits elsewhere. If it leaves because the lock is granted to it, it becomes a holder
 * where the holders have been visited; if not, it may have another position where the ties have
 * been visited. */
static bool leadsOn(const struct cyclesearch *search, const struct waitRequest *request) {
    bool leads_on = !mapIsAlone(&request->by_requester);
    const struct position *position = leads_on ? waitqueueFirstOf(request) : NULL;
    while (position && position->queue->seen.search != search->graph->searches) {
        position = waitqueueNextOf(position);
    }
    return position;
}

void cyclesearchForget(struct cyclesearch *search, struct waitRequest *request) {
    if (search->result != CYCLESEARCH_CONTINUES) {
        return; /* the asker may have been freed */
    }
    if (search->writer && search->writer->request == request) {
        passWriter(search, search->writer);
    }
    if (request == search->asker) {
        search->result = CYCLESEARCH_LEFT;
    } else if (waitgraphHas(request)) {
        /* Other waits of the asker's owner may no longer be ties, wherever they are. */
        search->has_to_restart |= search->request == request ||
                                  searchIsAsker(search, request->owner, request->owner_length) ||
                                  leadsOn(search, request) || standsForOthers(search, request);
        cycleprecheckLeave(&search->waited_for, request);
        leavePath(search, request);
    }
}

void cyclesearchEnter(struct waitgraph *graph, struct waitRequest *request) {
    struct cyclesearch *search = graph->search;
    waitgraphEnter(graph, request);
    if (search && search->result == CYCLESEARCH_CONTINUES) {
        search->has_to_restart = true;
    }
}

void cyclesearchMove(struct waitgraph *graph, const struct position *position) {
    struct cyclesearch *search = graph->search;
    if (search && search->result == CYCLESEARCH_CONTINUES) {
        passWriter(search, position);
        search->has_to_restart = true; /* others may no longer be in its way */
    }
}
