/* See standstill.h. */
#include "core/standstill.h"

#define HZ_MOST 500 /* the server's config allows no more */
#define ROUNDS_KEPT (HZ_MOST + 1)

static struct {
    int64_t rounds_ms[ROUNDS_KEPT]; /* when the cron was called, round by round; a ring */
    int last;                       /* index of the last round */
    int back; /* the replicas have been counted since the round that was so many before it */
} cron;

void standstillBegin(int64_t now_ms) {
    for (int i = 0; i < ROUNDS_KEPT; i++) {
        cron.rounds_ms[i] = now_ms;
    }
}

/* As the server reckons which rounds are a second apart (run_with_period in its server.h). One of so
 * many counts the replicas, before we are called: with 1 it is each. */
static int roundsToCount(int hz) {
    return hz > 1 ? 1000 / (1000 / hz) : 0;
}

void standstillCron(int64_t now_ms, int hz) {
    cron.back = roundsToCount(hz < HZ_MOST ? hz : HZ_MOST);
    cron.last = (cron.last + 1) % ROUNDS_KEPT;
    cron.rounds_ms[cron.last] = now_ms;
}

bool standstillAt(int64_t now_ms) {
    int since = (cron.last - cron.back + ROUNDS_KEPT) % ROUNDS_KEPT;
    return now_ms - cron.rounds_ms[since] > STANDSTILL_MS;
}
