/* See stall.h. */
#include "core/stall.h"

#define HZ_MOST 500 /* the largest hz that the server's config allows */
#define ROUNDS_KEPT (HZ_MOST + 1)

static struct {
    int64_t rounds_ms[ROUNDS_KEPT]; /* when the cron ran last; a ring buffer */
    int last;                       /* index of the last run */
    /* The replicas have been counted since the run that was this many runs before the last. */
    int back;
} cron;

void stallBegin(int64_t now_ms) {
    for (int i = 0; i < ROUNDS_KEPT; i++) {
        cron.rounds_ms[i] = now_ms;
    }
}

/* The server counts its replicas in one of this many runs of its cron (run_with_period in its
 * server.h). It does so before the module is called: so 0 if it counts in every run, with hz 1. */
static int roundsToCount(int hz) {
    return hz > 1 ? 1000 / (1000 / hz) : 0;
}

void stallCron(int64_t now_ms, int hz) {
    cron.back = roundsToCount(hz < HZ_MOST ? hz : HZ_MOST);
    cron.last = (cron.last + 1) % ROUNDS_KEPT;
    cron.rounds_ms[cron.last] = now_ms;
}

bool stallAt(int64_t now_ms) {
    int since = (cron.last - cron.back + ROUNDS_KEPT) % ROUNDS_KEPT;
    return now_ms - cron.rounds_ms[since] > STALL_MS;
}
