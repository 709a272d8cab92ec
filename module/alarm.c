/* See alarm.h. */
#include "alarm.h"

#include <stdbool.h>
#include <stddef.h>

static struct {
    void (*drain)(RedisModuleCtx *ctx);
    bool set;
} alarm_state;

void alarmConnect(void (*drain)(RedisModuleCtx *ctx)) {
    alarm_state.drain = drain;
}

void alarmRing(RedisModuleCtx *ctx) {
    alarm_state.drain(ctx);
}

static void ring(RedisModuleCtx *ctx, void *data) {
    (void)data;
    alarm_state.set = false;
    alarmRing(ctx);
}

static void nothing(void *data) {
    (void)data;
}

void alarmSet(RedisModuleCtx *ctx, int64_t delay_ms) {
    if (alarm_state.set) {
        return;
    }
    alarm_state.set = true;
    RedisModule_CreateTimer(ctx, delay_ms, ring, NULL);
    if (delay_ms == 0) {
        /* On Redis 7.0 the event loop may already have decided how long to sleep: wake it up. */
        RedisModule_EventLoopAddOneShot(nothing, NULL);
    }
}
