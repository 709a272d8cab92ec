/* See quarantine.h. */
#include "common/quarantine.h"

#include "common/config.h"
#include "core/stall.h"
#include "server/server.h"
#include "server/timer.h"

/* After this time a server that was stalled has counted its replicas, as a rule. */
#define COUNTED_AFTER_MS 1000

static struct {
    const struct quarantineCalls *calls;
    bool is_watched; /* quarantineCron is called */
    bool on;
    bool is_counted;   /* measured from `since_us`, on a master */
    uint64_t since_us; /* monotonic */
    struct timer timer;
} state;

/* While one is on or may begin, each grant has to ask. */
static void quarantineCount(void) {
    featuresSet(FEATURE_QUARANTINE, state.on || configQuarantineMs() > 0);
}

void quarantineConnect(const struct quarantineCalls *calls) {
    state.calls = calls;
}

bool quarantineIsOn(void) {
    return state.on;
}

/* A configured time is far below the largest time. */
static uint64_t leftUs(void) {
    uint64_t passed_us = RedisModule_MonotonicMicroseconds() - state.since_us;
    uint64_t lasts_us = (uint64_t)configQuarantineMs() * 1000;
    return passed_us < lasts_us ? lasts_us - passed_us : 0;
}

bool quarantineKeepsRenewal(int64_t now_ms) {
    return configQuarantineMs() > 0 && state.is_counted && stallAt(now_ms);
}

static bool isStalled(void) {
    return quarantineKeepsRenewal(serverNow());
}

int64_t quarantineLeftMs(void) {
    if (!state.on) {
        return 0;
    }
    int64_t left_ms = (int64_t)((leftUs() + 999) / 1000);
    if (left_ms < COUNTED_AFTER_MS && isStalled()) {
        return COUNTED_AFTER_MS;
    }
    return left_ms > 0 ? left_ms : 1; /* its timer is late */
}

static int64_t endMs(void) {
    return serverNow() + quarantineLeftMs();
}

int64_t quarantineEndOr(int64_t since_ms) {
    return state.on ? endMs() : since_ms; /* called for every acquisition */
}

/* ---- its timer ---- */

static void quarantineOnTimer(RedisModuleCtx *ctx, struct timer *timer);

static void quarantineSetTimer(RedisModuleCtx *ctx) {
    timerSet(ctx, &state.timer, timerAfter(quarantineLeftMs()), quarantineOnTimer);
}

static void quarantineStart(RedisModuleCtx *ctx, const char *why) {
    state.on = true;
    quarantineCount();
    quarantineSetTimer(ctx);
    RedisModule_Log(ctx, REDISMODULE_LOGLEVEL_NOTICE,
                    "quarantine: %snothing is granted for %lld ms", why,
                    (long long)quarantineLeftMs());
}

static void quarantineEnd(RedisModuleCtx *ctx) {
    state.on = false;
    quarantineCount();
    timerStop(ctx, &state.timer);
    RedisModule_Log(ctx, REDISMODULE_LOGLEVEL_NOTICE, "quarantine: has ended");
    state.calls->over(ctx);
}

static void quarantineLook(RedisModuleCtx *ctx) {
    if (state.on && leftUs() == 0 && !isStalled()) {
        quarantineEnd(ctx);
    }
}

static void quarantineOnTimer(RedisModuleCtx *ctx, struct timer *timer) {
    (void)timer;
    quarantineLook(ctx);
    if (state.on) {
        quarantineSetTimer(ctx); /* it has been made longer, or the server is stalled */
    }
}

void quarantineCron(RedisModuleCtx *ctx, int hz) {
    stallCron(serverNow(), hz);
    quarantineLook(ctx);
}

/* ---- when it begins ---- */

bool quarantineKeepsGrants(RedisModuleCtx *ctx, int64_t now_ms) {
    if (!state.on && quarantineKeepsRenewal(now_ms)) {
        quarantineStart(ctx, "the server was stalled, ");
    }
    return state.on;
}

static void watchIfConfigured(RedisModuleCtx *ctx) {
    if (configQuarantineMs() > 0 && !state.is_watched) {
        state.is_watched = true;
        stallBegin(serverNow());
        state.calls->watch(ctx);
    }
}

void quarantineConfigured(RedisModuleCtx *ctx) {
    watchIfConfigured(ctx);
    quarantineCount();
    if (state.is_counted && leftUs() > 0) {
        quarantineStart(ctx, "");
    } else {
        quarantineLook(ctx);
    }
}

void quarantineBegin(RedisModuleCtx *ctx) {
    state.is_counted = RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_MASTER;
    state.since_us = RedisModule_MonotonicMicroseconds();
    stallBegin(serverNow()); /* the cron does not run during a load */
    watchIfConfigured(ctx);
    if (state.is_counted) {
        quarantineConfigured(ctx);
    } else {
        state.on = false; /* no client waits on a replica */
        timerStop(ctx, &state.timer);
    }
    quarantineCount();
}
