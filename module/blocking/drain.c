/* When each kind of work is due, and the run of what is due.
 *
 *   drainSetAlarm     makes the drain run soon, because there is work
 *   drainRunSoon      makes the drain run after the callback of a timer
 *   drainWakeLoop     wakes the event loop after another timer has been set
 *   drainRetry        makes the drain run again after a while, because the server refuses writes
 *   drainIsQuiet      returns whether the module can be unloaded
 *
 * To add a kind of work, add it to enum drainWork, write its functions in the file that records
 * what is to be done, and add a row to the table of module.c.
 *
 * Contracts are in drain.h.
 */
#include "blocking/drain.h"

#include "common/failpoint.h"
#include "server/server.h"
#include "server/timer.h"
#include "server/timeslice.h"

/* The least time between two drains that other timers start (drainRunSoon). */
#define APART_US 1000

#define RETRY_MS 20

static const struct drainJob *jobs;
static void (*after_run)(void);

/* When each kind of work is due, monotonic µs plus 1, so that 0 is never. */
static struct {
    int64_t due_us[DRAIN_WORK_COUNT];
    bool runs;
    uint64_t ran_at_us; /* when the drain ran last, monotonic */
    struct timer timer; /* for the kind that is due first, unless the drain runs */
    size_t wakings;     /* callbacks that the server has still to call */
} drain;

void drainConnect(const struct drainJob drain_jobs[DRAIN_WORK_COUNT], void (*done)(void)) {
    jobs = drain_jobs;
    after_run = done;
}

/* ---- when ---- */

static void onWaking(void *data) {
    (void)data;
    RedisModule_Assert(drain.wakings > 0);
    drain.wakings--;
}

bool drainIsQuiet(void) {
    return drain.wakings == 0;
}

/* Once is enough: the server does not sleep until it has called back. */
void drainWakeLoop(void) {
    if (drain.wakings == 0) {
        drain.wakings++;
        RedisModule_EventLoopAddOneShot(onWaking, NULL);
    }
}

static void drainOnTimer(RedisModuleCtx *ctx, struct timer *timer) {
    (void)timer;
    drainRun(ctx);
}

static void setTimer(RedisModuleCtx *ctx, int64_t at_us) {
    if (!drain.timer.is_set || at_us < drain.timer.place.at) {
        timerSet(ctx, &drain.timer, at_us, drainOnTimer);
        drainWakeLoop();
    }
}

void drainSetAlarm(RedisModuleCtx *ctx, enum drainWork work, int64_t delay_ms) {
    /* Time 0 puts the alarm before all other due timers, of which there may be thousands. */
    int64_t at_us = delay_ms > 0 ? timerAfter(delay_ms) : 0;
    if (at_us < drain.due_us[work] - 1 || drain.due_us[work] == 0) {
        drain.due_us[work] = at_us < INT64_MAX ? at_us + 1 : at_us;
    }
    if (!drain.runs) {
        setTimer(ctx, at_us);
    }
}

void drainRetry(RedisModuleCtx *ctx, enum drainWork work) {
    drainSetAlarm(ctx, work, RETRY_MS);
}

void drainClearAlarm(enum drainWork work) {
    drain.due_us[work] = 0;
}

/* The server calls all due timers before it does anything else: a drain for each would turn many
 * short time slices into one long one. */
void drainRunSoon(RedisModuleCtx *ctx, enum drainWork work) {
    if (RedisModule_MonotonicMicroseconds() - drain.ran_at_us < APART_US) {
        drainSetAlarm(ctx, work, 0);
    } else {
        drain.due_us[work] = 1;
        timerRunAfter();
    }
}

/* Sets the timer for the kind of work that is due first. */
static void setTimerForFirst(RedisModuleCtx *ctx) {
    int64_t first_us = 0;
    for (int work = 0; work < DRAIN_WORK_COUNT; work++) {
        int64_t due_us = drain.due_us[work];
        first_us = due_us > 0 && (first_us == 0 || due_us < first_us) ? due_us : first_us;
    }
    if (first_us > 0) {
        setTimer(ctx, first_us - 1);
    } else {
        timerStop(ctx, &drain.timer);
    }
}

/* ---- the run ---- */

static bool isDue(int work, int64_t now_us) {
    return drain.due_us[work] > 0 && drain.due_us[work] - 1 <= now_us;
}

static void holdAll(RedisModuleCtx *ctx, int64_t now_us) {
    int64_t now_ms = serverNow();
    for (int work = 0; work < DRAIN_WORK_COUNT; work++) {
        if (isDue(work, now_us)) {
            drain.due_us[work] = 0;
            if (jobs[work].hold) {
                jobs[work].hold(ctx, now_ms);
            }
            drainRetry(ctx, (enum drainWork)work);
        }
    }
}

static void forgetAll(RedisModuleCtx *ctx) {
    for (int work = 0; work < DRAIN_WORK_COUNT; work++) {
        drain.due_us[work] = 0;
        if (jobs[work].forget) {
            jobs[work].forget(ctx);
        }
    }
}

void drainRun(RedisModuleCtx *ctx) {
    int64_t now_us = timerNow(), now_ms = serverNow();
    drain.ran_at_us = (uint64_t)now_us;
    drain.runs = true;
    timesliceBegin();
    (void)failpoint(FAILPOINT_DRAIN_BEGUN);
    switch (serverWritableNow(ctx)) {
    case SERVER_WRITABLE:
        for (int work = 0; work < DRAIN_WORK_COUNT; work++) {
            if (isDue(work, now_us)) {
                drain.due_us[work] = 0;
                jobs[work].work(ctx, now_ms);
            }
        }
        break;
    case SERVER_WRITABLE_LATER:
        holdAll(ctx, now_us);
        break;
    case SERVER_IS_REPLICA:
        forgetAll(ctx);
        break;
    }
    timesliceEnd();
    drain.runs = false;
    setTimerForFirst(ctx);
    after_run();
}
