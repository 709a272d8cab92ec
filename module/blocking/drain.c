/* The alarm, and the run of all jobs.
 *
 *   drainSetAlarm     makes the drain run soon, because there is work
 *   drainRunSoon      runs the drain in the callback of a timer
 *   drainWakeLoop     wakes the event loop after another timer has been set
 *   drainRetry        makes the drain run again after a while, because the server refuses writes
 *   drainIsQuiet      returns whether the module can be unloaded
 *
 * To add a kind of work, write its functions in the file that records what is to be done, and add a
 * row to the table of module.c.
 *
 * Contracts are in drain.h.
 */
#include "blocking/drain.h"

#include "server/failpoint.h"
#include "server/server.h"
#include "server/timer.h"
#include "server/timeslice.h"

/* The least time between two drains that other timers start (drainRunSoon). */
#define APART_US 1000

#define RETRY_MS 20

static struct {
    const struct drainJob *jobs;
    size_t count;
    void (*done)(void);
} work;

static struct {
    uint64_t rang_at_us; /* when the drain ran last, monotonic */
    struct timer timer;
    size_t wakings; /* callbacks that the server has still to call */
} alarm;

void drainConnect(const struct drainJob *jobs, size_t count, void (*done)(void)) {
    work.jobs = jobs;
    work.count = count;
    work.done = done;
}

/* ---- the jobs ---- */

static void workAll(RedisModuleCtx *ctx) {
    int64_t now_ms = serverNow();
    for (size_t i = 0; i < work.count; i++) {
        work.jobs[i].work(ctx, now_ms);
    }
}

static void holdAll(RedisModuleCtx *ctx) {
    int64_t now_ms = serverNow();
    for (size_t i = 0; i < work.count; i++) {
        if (work.jobs[i].hold) {
            work.jobs[i].hold(ctx, now_ms);
        }
    }
}

static void forgetAll(RedisModuleCtx *ctx) {
    for (size_t i = 0; i < work.count; i++) {
        if (work.jobs[i].forget) {
            work.jobs[i].forget(ctx);
        }
    }
}

static void workOrForget(RedisModuleCtx *ctx) {
    (void)failpoint(FAILPOINT_DRAIN_BEGUN);
    switch (serverWritableNow(ctx)) {
    case SERVER_WRITABLE:
        workAll(ctx);
        break;
    case SERVER_WRITABLE_LATER:
        holdAll(ctx);
        drainRetry(ctx);
        break;
    case SERVER_IS_REPLICA:
        forgetAll(ctx);
        break;
    }
}

static void drain(RedisModuleCtx *ctx, uint64_t now_us) {
    alarm.rang_at_us = now_us;
    timesliceBegin();
    workOrForget(ctx);
    timesliceEnd();
    work.done();
}

/* ---- the alarm ---- */

/* The server calls all due timers before it does anything else: a drain for each would turn many
 * short time slices into one long one. */
void drainRunSoon(RedisModuleCtx *ctx) {
    uint64_t now_us = RedisModule_MonotonicMicroseconds();
    if (now_us - alarm.rang_at_us < APART_US) {
        drainSetAlarm(ctx, 0);
    } else {
        drain(ctx, now_us);
    }
}

static void ring(RedisModuleCtx *ctx, struct timer *timer) {
    (void)timer;
    drain(ctx, RedisModule_MonotonicMicroseconds());
}

static void onWaking(void *data) {
    (void)data;
    RedisModule_Assert(alarm.wakings > 0);
    alarm.wakings--;
}

bool drainIsQuiet(void) {
    return alarm.wakings == 0;
}

/* Once is enough: the server does not sleep until it has called back. */
void drainWakeLoop(void) {
    if (alarm.wakings == 0) {
        alarm.wakings++;
        RedisModule_EventLoopAddOneShot(onWaking, NULL);
    }
}

void drainSetAlarm(RedisModuleCtx *ctx, int64_t delay_ms) {
    /* Time 0 puts the alarm before all other due timers, of which there may be thousands. */
    int64_t at_us = delay_ms > 0 ? timerAfter(delay_ms) : 0;
    if (!alarm.timer.is_set || at_us < alarm.timer.place.at) {
        timerSet(ctx, &alarm.timer, at_us, ring);
        drainWakeLoop();
    }
}

void drainRetry(RedisModuleCtx *ctx) {
    drainSetAlarm(ctx, RETRY_MS);
}
