/* The counters of the module since it was loaded, shown by `INFO lock`. */
#ifndef LOCK_STATS_H
#define LOCK_STATS_H

#include <stddef.h>

#include "core/histogram.h"
#include "redismodule.h"

enum statsCounter {
    STATS_GRANTED_AT_ONCE,
    STATS_GRANTED_AFTER_WAIT,
    STATS_GRANTED_BY_REENTRY,
    STATS_REPEATS,  /* requests with ONCE whose owner already had the hold */
    STATS_RELEASES, /* holds released by LOCK.RELEASE and LOCK.MRELEASE */
    STATS_FORCED,   /* locks freed by LOCK.FORCE */
    /* Leases that expired while a client waited, or while other owners still held the lock. */
    STATS_LEASE_ENDS,
    STATS_TIME_OUTS,
    STATS_CANCELLED,
    STATS_NOT_ACKNOWLEDGED, /* grants and renewals not acknowledged by enough replicas in time */
    /* Owners whose holds were released because their connection closed. */
    STATS_SESSIONS_RELEASED,
    STATS_CLIENTS_GONE,      /* waits ended by a closed connection or by an error of the server */
    STATS_DEADLOCKS,         /* waits refused because they would have closed a cycle */
    STATS_DEADLOCK_SEARCHES, /* searches for a cycle */
    STATS_DEADLOCK_SEARCH_STEPS, /* the steps of all these searches */
    STATS_DEADLOCK_SEARCHES_CUT, /* waits allowed because the search took too long */
    STATS_DELAY_DELIVERED,       /* elements of delayed queues that were pushed to their lists */
    STATS_COUNTER_COUNT
};

/* Only for the functions below. */
extern struct stats {
    unsigned long long counters[STATS_COUNTER_COUNT];
    struct histogram waits;
    unsigned long long waited_ms; /* of all waits */
} stats;

/* Increments the counter. */
static inline void statsCount(enum statsCounter counter) {
    stats.counters[counter]++;
}

/* Adds `count` to the counter. */
static inline void statsCountMany(enum statsCounter counter, size_t count) {
    stats.counters[counter] += count;
}

/* Counts a search for a cycle that has taken this many steps. */
static inline void statsSearched(size_t steps) {
    statsCount(STATS_DEADLOCK_SEARCHES);
    statsCountMany(STATS_DEADLOCK_SEARCH_STEPS, steps);
}

/* Records that a wait that ended in a grant took `waited_ms`. */
static inline void statsWaited(long long waited_ms) {
    histogramRecord(&stats.waits, waited_ms);
    stats.waited_ms += waited_ms > 0 ? (unsigned long long)waited_ms : 0;
}

/* Adds the counters and the percentiles of the wait time to the section of INFO that `ctx` is
 * writing. */
void statsAddToInfo(RedisModuleInfoCtx *ctx);

#endif
