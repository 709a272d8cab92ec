/* See stats.h. */
#include "common/stats.h"

struct stats stats;

static const char *const counter_names[STATS_COUNTER_COUNT] = {
    [STATS_GRANTED_AT_ONCE] = "granted_at_once",
    [STATS_GRANTED_AFTER_WAIT] = "granted_after_wait",
    [STATS_GRANTED_BY_REENTRY] = "granted_by_reentry",
    [STATS_REPEATS] = "repeats",
    [STATS_RELEASES] = "releases",
    [STATS_FORCED] = "forced",
    [STATS_LEASE_ENDS] = "lease_ends",
    [STATS_TIME_OUTS] = "time_outs",
    [STATS_CANCELLED] = "cancelled",
    [STATS_NOT_ACKNOWLEDGED] = "not_acknowledged",
    [STATS_SESSIONS_RELEASED] = "sessions_released",
    [STATS_CLIENTS_GONE] = "clients_gone",
    [STATS_DEADLOCKS] = "deadlocks_refused",
    [STATS_DEADLOCK_SEARCHES] = "deadlock_searches",
    [STATS_DEADLOCK_SEARCH_STEPS] = "deadlock_search_steps",
    [STATS_DEADLOCK_SEARCHES_CUT] = "deadlock_searches_cut",
    [STATS_DELAY_DELIVERED] = "delay_delivered",
};

static const struct {
    const char *name;
    double percent;
} percentiles[] = {
    {"wait_ms_p50", 50}, {"wait_ms_p99", 99}, {"wait_ms_p99_9", 99.9}, {"wait_ms_max", 100}};

void statsAddToInfo(RedisModuleInfoCtx *ctx) {
    for (int i = 0; i < STATS_COUNTER_COUNT; i++) {
        RedisModule_InfoAddFieldULongLong(ctx, counter_names[i], stats.counters[i]);
    }
    RedisModule_InfoAddFieldULongLong(ctx, "wait_ms_total", stats.waited_ms);
    for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++) {
        RedisModule_InfoAddFieldLongLong(ctx, percentiles[i].name,
                                         histogramPercentile(&stats.waits, percentiles[i].percent));
    }
}
