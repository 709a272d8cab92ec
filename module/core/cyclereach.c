/* See cyclereach.h. */
#include "core/cyclereach.h"

#include <string.h>

bool searchContinues(const struct cyclesearch *search) {
    return search->result == CYCLESEARCH_CONTINUES && !search->has_to_restart;
}

bool searchLooks(const struct cyclesearch *search) {
    return searchContinues(search) && search->stage != SEARCH_CHECK;
}

bool searchIsAsker(const struct cyclesearch *search, const char *owner, size_t length) {
    return length == search->asker->owner_length &&
           memcmp(owner, search->asker->owner, length) == 0;
}

bool searchTakeSteps(struct cyclesearch *search, size_t count) {
    if (searchLooks(search) && search->most - search->steps < count) {
        search->result = CYCLESEARCH_GAVE_UP;
    }
    if (searchLooks(search)) {
        search->steps += count;
        search->work += count;
    }
    return searchLooks(search);
}

/* ---- the pre-check: whether an owner waits for the asker ---- */

/* Whether the pre-check takes a step before the search takes `steps` more steps of its own: if the
 * pre-check will have cost less in total after that than the search after those steps. So a search
 * costs at most twice what it would cost without the pre-check; and if no owner waits for the
 * asker, at most twice what the pre-check costs. */
static bool isToAskFirst(const struct cyclesearch *search, size_t steps) {
    return search->waited_for.answer == CYCLEPRECHECK_CONTINUES &&
           search->asked_about + cycleprecheckCost(&search->waited_for) < search->steps + steps;
}

void searchAskOn(struct cyclesearch *search) {
    search->asked_about += cycleprecheckCost(&search->waited_for);
    search->work++;
    cycleprecheckContinue(&search->waited_for);
    if (search->waited_for.answer == CYCLEPRECHECK_NOBODY) {
        search->result = CYCLESEARCH_NO_CYCLE;
    }
}

bool searchAskFirst(struct cyclesearch *search, size_t steps) {
    bool is_to_ask = isToAskFirst(search, steps);
    if (is_to_ask) {
        searchAskOn(search);
    }
    return is_to_ask;
}

bool cyclesearchMayTake(struct cyclesearch *search, size_t steps) {
    search->postponed = isToAskFirst(search, steps) ? steps : 0;
    return search->postponed == 0;
}

/* ---- reaching an owner ---- */

struct waitqueueSeen *searchSeenIn(struct cyclesearch *search, struct waitqueue *queue) {
    if (queue->seen.search != search->graph->searches) {
        queue->seen = (struct waitqueueSeen){.search = search->graph->searches, .asker = INT64_MAX};
        for (int mode = 0; mode < MODE_COUNT; mode++) {
            queue->seen.before[mode] = INT64_MIN;
        }
    }
    return &queue->seen;
}

static void foundCycle(struct cyclesearch *search) {
    search->stage = SEARCH_CHECK;
    search->checked = &search->at;
    search->checked_to = 0;
}

bool searchHasReached(const struct cyclesearch *search, const struct waitRequest *first) {
    return first->reached_in == search->graph->searches;
}

/* Returns the number of this owner in the path plus one; or 0 if it does not wait, or if the search
 * has given up. */
static size_t reach(struct cyclesearch *search, const char *owner, size_t length) {
    if (!searchTakeSteps(search, 1)) {
        return 0;
    }
    if (searchIsAsker(search, owner, length)) {
        if (search->at.from != 0) {
            foundCycle(search);
        }
        return 1;
    }
    struct waitRequest *first = waitgraphFirstOf(search->graph, owner, length);
    if (first && !searchHasReached(search, first)) {
        first->reached_in = search->graph->searches;
        first->reached_as = cyclepathAdd(&search->path, first, &search->at);
    }
    return first ? first->reached_as + 1 : 0;
}

void cyclesearchReach(struct cyclesearch *search, const char *owner, size_t length) {
    reach(search, owner, length);
}

void searchReach(struct cyclesearch *search, const struct waitRequest *request) {
    reach(search, request->owner, request->owner_length);
}

void cyclesearchReachAlone(struct cyclesearch *search, const char *owner, size_t length) {
    size_t number = reach(search, owner, length);
    searchSeenIn(search, search->at.queue)->alone = number;
}

/* ---- testing each request ---- */

void searchAskWhetherHolder(struct cyclesearch *search, const struct waitRequest *request) {
    if (searchTakeSteps(search, search->steps_of_each) &&
        search->asked.is_holder(search->at.queue, search->mode, request, search->asked.context)) {
        searchReach(search, request);
    }
}

void cyclesearchEachRequest(struct cyclesearch *search, size_t steps) {
    bool *asked = &searchSeenIn(search, search->at.queue)->asked[search->mode];
    search->steps_of_each = steps;
    search->stage = SEARCH_EACH;
    if (*asked) {
        search->graph->next.request = NULL;
    } else {
        waitgraphWalkRequests(search->graph);
    }
    *asked = true;
    searchAskWhetherHolder(search, search->asker);
}
