/* What the module counts since it was loaded, shown by `INFO lock`. */
#ifndef LOCK_STATS_H
#define LOCK_STATS_H

#include <stddef.h>

#include "redismodule.h"

enum statsCounter {
    STATS_GRANTED_AT_ONCE,
    STATS_GRANTED_AFTER_WAIT,
    STATS_GRANTED_BY_REENTRY,
    STATS_REPEATS,    /* requests by ONCE that found their hold */
    STATS_RELEASES,   /* holds released by LOCK.RELEASE and LOCK.MRELEASE */
    STATS_FORCED,     /* locks freed by LOCK.FORCE */
    STATS_LEASE_ENDS, /* leases that ended while somebody waited, or others read on */
    STATS_TIME_OUTS,
    STATS_CANCELLED,
    STATS_NOT_ACKNOWLEDGED,      /* by so many replicas in time as REPLICAS asked for */
    STATS_SESSIONS_RELEASED,     /* owners whose holds were released because their connection closed
                              */
    STATS_CLIENTS_GONE,          /* waiters whose connection closed, or whom the server answered */
    STATS_DEADLOCKS,             /* waits refused because they would have closed a cycle */
    STATS_DEADLOCK_SEARCHES,     /* waits from which a cycle was looked for */
    STATS_DEADLOCK_SEARCH_STEPS, /* in how many steps, all together */
    STATS_DEADLOCK_SEARCHES_CUT, /* waits let in because looking for a cycle took too long */
    STATS_DELAY_DELIVERED,       /* elements of delayed queues that went to their lists */
    STATS_COUNTER_COUNT
};

void statsCount(enum statsCounter counter);

/* Likewise, so many. */
void statsCountMany(enum statsCounter counter, size_t count);

/* A cycle was looked for, in so many steps. */
void statsSearched(size_t steps);

/* A wait that ended in a grant took `waited_ms`. */
void statsWaited(long long waited_ms);

/* Adds the counters and the percentiles of the wait time to the section of INFO that `ctx` is
 * writing. */
void statsAddToInfo(RedisModuleInfoCtx *ctx);

#endif
