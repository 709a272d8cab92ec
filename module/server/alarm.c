/* See alarm.h. */
#include "server/alarm.h"

#include <stdbool.h>
#include <stddef.h>

/* By less the two clocks, one of ms and one of µs, differ from look to look. */
#define STEP_US 2000

/* So much time lies between two drains that timers of others ring for. */
#define APART_US 1000

static struct {
    void (*drain)(RedisModuleCtx *ctx);
    bool set;
    uint64_t at_us;  /* when it is to ring, monotonic */
    int64_t wall_us; /* how far the time of day was ahead of the monotonic clock when it was set */
    uint64_t rang_at_us; /* when the drain has run last */
    RedisModuleTimerID timer;
    size_t wakings; /* those that the server has yet to call */
} alarm_state;

void alarmConnect(void (*drain)(RedisModuleCtx *ctx)) {
    alarm_state.drain = drain;
}

static void drain(RedisModuleCtx *ctx, uint64_t now_us) {
    alarm_state.rang_at_us = now_us;
    alarm_state.drain(ctx);
}

/* The server calls all timers that are due before anything else: a drain for each would make one
 * long turn of many short ones. */
void alarmRing(RedisModuleCtx *ctx) {
    uint64_t now_us = RedisModule_MonotonicMicroseconds();
    if (now_us - alarm_state.rang_at_us < APART_US) {
        alarmSet(ctx, 0);
    } else {
        drain(ctx, now_us);
    }
}

static void ring(RedisModuleCtx *ctx, void *data) {
    (void)data;
    alarm_state.set = false;
    drain(ctx, RedisModule_MonotonicMicroseconds());
}

static void onWaking(void *data) {
    (void)data;
    RedisModule_Assert(alarm_state.wakings > 0);
    alarm_state.wakings--;
}

bool alarmIsQuiet(void) {
    return alarm_state.wakings == 0;
}

/* Once is enough: as long as the server has yet to call, it does not sleep. */
void alarmWakeLoop(void) {
    if (alarm_state.wakings == 0) {
        alarm_state.wakings++;
        RedisModule_EventLoopAddOneShot(onWaking, NULL);
    }
}

static void setTimer(RedisModuleCtx *ctx, uint64_t at_us, uint64_t now_us, int64_t wall_us) {
    if (alarm_state.set) {
        RedisModule_StopTimer(ctx, alarm_state.timer, NULL);
    }
    int64_t delay_ms = at_us > now_us ? (int64_t)((at_us - now_us + 999) / 1000) : 0;
    alarm_state.set = true;
    alarm_state.at_us = at_us;
    alarm_state.wall_us = wall_us;
    alarm_state.timer = RedisModule_CreateTimer(ctx, delay_ms, ring, NULL);
    alarmWakeLoop();
}

/* The server's timers ring by the time of day. When that has stepped back, the one that is set rings
 * as much later: then it is set anew. */
void alarmSet(RedisModuleCtx *ctx, int64_t delay_ms) {
    uint64_t now_us = RedisModule_MonotonicMicroseconds();
    uint64_t at_us = now_us + (uint64_t)delay_ms * 1000;
    int64_t wall_us = RedisModule_Milliseconds() * 1000 - (int64_t)now_us;
    bool is_sooner = !alarm_state.set || at_us < alarm_state.at_us;
    if (is_sooner) {
        setTimer(ctx, at_us, now_us, wall_us);
    } else if (alarm_state.wall_us - wall_us > STEP_US) {
        setTimer(ctx, alarm_state.at_us, now_us, wall_us);
    }
}
