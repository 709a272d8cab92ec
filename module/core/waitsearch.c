/* See waitsearch.h. The steps are in searchsteps.c. */
#include "core/waitsearch.h"

#include "core/mem.h"
#include "core/searchsteps.h"

/* Begins an attempt, which has reached no owner, with a new pre-check. */
static void start(struct waitsearch *search) {
    struct waitgraph *graph = search->graph;
    const struct request *asker = search->asker;
    graph->searches++;
    waitedforBegin(&search->waited_for, graph, asker,
                   (struct waitedforHolders){search->asked.may_be_holder, search->asked.context});
    waitpathBegin(&search->path, asker, waitgraphFirstOf(graph, asker->owner, asker->owner_length));
}

void waitsearchBegin(struct waitgraph *graph, const struct request *asker,
                     const struct waitsearchAsked *asked, size_t most) {
    struct waitsearch *search = memAlloc(sizeof(*search));
    *search = (struct waitsearch){.graph = graph, .asker = asker, .asked = *asked, .most = most};
    graph->search = search;
    start(search);
    if (waitgraphAsksForNothingNew(asker)) {
        search->result = WAITSEARCH_NO_CYCLE;
    }
}

/* What each restart costs at least, in steps: so a search ends even if positions move between any
 * two time slices. */
#define STEPS_AN_ATTEMPT 16

static void restart(struct waitsearch *search) {
    search->has_to_restart = false;
    if (search->most - search->steps < STEPS_AN_ATTEMPT) {
        search->result = WAITSEARCH_GAVE_UP;
        return;
    }
    search->steps += STEPS_AN_ATTEMPT;
    search->was_suspended = false;
    search->goes_ahead = false;
    search->held = search->tied = search->postponed = 0;
    search->writer = NULL;
    search->stage = SEARCH_BEGIN;
    waitpathEnd(&search->path);
    start(search);
}

bool waitsearchGoOn(struct waitgraph *graph, size_t steps) {
    struct waitsearch *search = graph->search;
    size_t pause_at = search->work + steps;
    while (search->result == WAITSEARCH_GOES_ON && search->work < pause_at) {
        if (search->has_to_restart) {
            restart(search);
        } else {
            searchOneStep(search);
        }
    }
    search->was_suspended = true;
    return waitsearchIsOver(graph);
}

bool waitsearchIsOver(const struct waitgraph *graph) {
    return graph->search->result != WAITSEARCH_GOES_ON;
}

struct waitsearchFound waitsearchEnd(struct waitgraph *graph) {
    struct waitsearch *search = graph->search;
    struct waitsearchFound found = {.result = search->result,
                                    .steps = search->steps + search->asked_about};
    if (found.result == WAITSEARCH_CYCLE) {
        found.cycle = waitpathCycle(&search->path, &search->at);
    }
    waitpathEnd(&search->path);
    memFree(search);
    graph->search = NULL;
    graph->next = (struct waitgraphWalks){0};
    return found;
}

/* ---- changes between two calls ---- */

/* If the owner of a request that leaves has been reached, another of its requests represents it
 * from now on. */
static void leavePath(struct waitsearch *search, struct request *request) {
    struct request *first = waitgraphFirstOf(search->graph, request->owner, request->owner_length);
    bool is_asker = searchIsAsker(search, request->owner, request->owner_length);
    if (!is_asker && !searchHasReached(search, first)) {
        return;
    }
    size_t number = is_asker ? 0 : first->reached_as;
    struct request *heir = first == request ? waitgraphNextOf(request) : first;
    waitpathLeave(&search->path, number, heir);
    if (heir && !is_asker) {
        heir->reached_in = search->graph->searches;
        heir->reached_as = number;
    }
}

static void passWriter(struct waitsearch *search, const struct position *position) {
    if (search->writer == position) {
        search->writer = waitqueueWriterBefore(search->writer);
    }
}

/* Whether owners were not reached because this one leads to the same owners and is still to be
 * expanded. */
static bool standsForOthers(const struct waitsearch *search, const struct request *request) {
    const struct request *first =
        waitgraphFirstOf(search->graph, request->owner, request->owner_length);
    return searchHasReached(search, first) && first->reached_as >= search->tied &&
           search->path.reached[first->reached_as].stands_for_others;
}

/* Whether the owner of a request that leaves may have edges that the search has not seen, because
 * it also waits elsewhere. If it leaves because the lock is granted to it, it becomes a holder
 * where the holders have been visited; if not, it may have another position where the ties have
 * been visited. */
static bool leadsOn(const struct waitsearch *search, const struct request *request) {
    bool leads_on = !mapIsAlone(&request->by_requester);
    const struct position *position = leads_on ? waitqueueFirstOf(request) : NULL;
    while (position && position->queue->seen.search != search->graph->searches) {
        position = waitqueueNextOf(position);
    }
    return position;
}

static void leave(struct waitsearch *search, struct request *request) {
    if (search->result != WAITSEARCH_GOES_ON) {
        return; /* the asker may have been freed */
    }
    if (search->writer && search->writer->request == request) {
        passWriter(search, search->writer);
    }
    if (request == search->asker) {
        search->result = WAITSEARCH_LEFT;
    } else if (waitgraphHas(request)) {
        /* Other waits of the asker's owner may no longer be ties, wherever they are. */
        search->has_to_restart |= search->request == request ||
                                  searchIsAsker(search, request->owner, request->owner_length) ||
                                  leadsOn(search, request) || standsForOthers(search, request);
        waitedforLeave(&search->waited_for, request);
        leavePath(search, request);
    }
}

void waitsearchEnter(struct waitgraph *graph, struct request *request) {
    struct waitsearch *search = graph->search;
    waitgraphEnter(graph, request);
    if (search && search->result == WAITSEARCH_GOES_ON) {
        search->has_to_restart = true;
    }
}

void waitsearchLeave(struct waitgraph *graph, struct request *request) {
    if (graph->search) {
        leave(graph->search, request);
    }
    waitgraphLeave(graph, request);
}

void waitsearchMove(struct waitgraph *graph, const struct position *position) {
    struct waitsearch *search = graph->search;
    if (search && search->result == WAITSEARCH_GOES_ON) {
        passWriter(search, position);
        search->has_to_restart = true; /* others may no longer be in its way */
    }
}
