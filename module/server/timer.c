/* See timer.h. */
#include "server/timer.h"

/* Redis 7.0 counts the time to its next timer in an int of µs: past 35 minutes that overflows, and
 * the event loop does not sleep any more. */
#define LONGEST_TIMER_MS (30LL * 60 * 1000)

/* One that is put off looks again so often: the time of day may step forth again, and the server would
 * not notice. */
#define LOOK_MS 1000

static struct {
    RedisModuleCtx *ctx; /* for the next round, which gives none; NULL if it is not asked to call */
    struct list timers;
} put_off;

int64_t timerDelay(int64_t at_ms, int64_t now_ms) {
    if (at_ms <= now_ms) {
        return 0;
    }
    int64_t delay_ms = at_ms - now_ms;
    return delay_ms < LONGEST_TIMER_MS ? delay_ms : LONGEST_TIMER_MS;
}

static void onTimer(RedisModuleCtx *ctx, void *data);

/* ---- to the next round ---- */

static void takeBack(struct timer *timer) {
    listRemove(&put_off.timers, &timer->in_put_off);
    timer->is_put_off = false;
}

static void onNextRound(void *data) {
    (void)data;
    int64_t now_ms = RedisModule_Milliseconds();
    while (!listIsEmpty(&put_off.timers)) {
        struct timer *timer = LIST_ELEMENT(put_off.timers.first, struct timer, in_put_off);
        takeBack(timer);
        int64_t delay_ms = timerDelay(timer->at_ms, now_ms);
        timer->id = RedisModule_CreateTimer(put_off.ctx, delay_ms < LOOK_MS ? delay_ms : LOOK_MS,
                                            onTimer, timer);
    }
    RedisModule_FreeThreadSafeContext(put_off.ctx);
    put_off.ctx = NULL;
}

static void putOff(RedisModuleCtx *ctx, struct timer *timer) {
    listAddLast(&put_off.timers, &timer->in_put_off);
    timer->is_put_off = true;
    if (!put_off.ctx) {
        put_off.ctx = RedisModule_GetDetachedThreadSafeContext(ctx);
        RedisModule_EventLoopAddOneShot(onNextRound, NULL);
    }
}

bool timerIsQuiet(void) {
    return !put_off.ctx;
}

/* ---- setting, stopping, ringing ---- */

static void onTimer(RedisModuleCtx *ctx, void *data) {
    struct timer *timer = data;
    if (RedisModule_Milliseconds() < timer->at_ms) {
        putOff(ctx, timer);
        return;
    }
    timer->is_set = false;
    timer->ring(ctx, timer);
}

void timerSet(RedisModuleCtx *ctx, struct timer *timer, int64_t at_ms, int64_t now_ms,
              void (*ring)(RedisModuleCtx *ctx, struct timer *timer)) {
    timerStop(ctx, timer);
    int64_t delay_ms = timerDelay(at_ms, now_ms);
    timer->ring = ring;
    timer->is_set = true;
    timer->at_ms = now_ms + delay_ms;
    timer->id = RedisModule_CreateTimer(ctx, delay_ms, onTimer, timer);
}

void timerStop(RedisModuleCtx *ctx, struct timer *timer) {
    if (timer->is_put_off) {
        takeBack(timer);
    } else if (timer->is_set) {
        RedisModule_StopTimer(ctx, timer->id, NULL);
    }
    timer->is_set = false;
}
