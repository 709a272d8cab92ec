/* See alarm.h. */
#include "alarm.h"

#include <stdbool.h>
#include <stddef.h>

static struct {
    void (*drain)(RedisModuleCtx *ctx);
    bool set;
    size_t wakings; /* those that the server has yet to call */
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

static void onWaking(void *data) {
    (void)data;
    alarm_state.wakings--;
}

bool alarmIsQuiet(void) {
    return alarm_state.wakings == 0;
}

void alarmSet(RedisModuleCtx *ctx, int64_t delay_ms) {
    if (alarm_state.set) {
        return;
    }
    alarm_state.set = true;
    RedisModule_CreateTimer(ctx, delay_ms, ring, NULL);
    if (delay_ms == 0) {
        /* On Redis 7.0 the event loop may already have decided how long to sleep: wake it up. */
        alarm_state.wakings++;
        RedisModule_EventLoopAddOneShot(onWaking, NULL);
    }
}
