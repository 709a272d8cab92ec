/* See timer.h. */
#include "server/timer.h"

/* Redis 7.0 stores the time to its next timer in an int of µs: after more than 35 minutes that
 * overflows, and the event loop no longer sleeps. So the server's timer fires after this time at
 * the latest, and is created again. */
#define LONGEST_TIMER_MS (30LL * 60 * 1000)

/* The difference between the two clocks, one in ms and one in µs, varies by less than this from
 * reading to reading. */
#define JITTER_US 2000

/* A clock that is slewed moves by less than this between two calls of the cron. */
#define STEP_US 20000

/* However many timers are due at once, clients are served after this time; and after this many
 * timers of a clock, because most of them send a reply, which costs the server time afterwards. */
#define SLICE_US 600
#define MOST_OF_CLOCK 64

static struct {
    struct heap by_clock[TIMER_CLOCKS];
    struct list due;
    void (*watch)(RedisModuleCtx *ctx);
    void (*after)(RedisModuleCtx *ctx);
    bool runs_after;
    bool calls; /* timers that are due are being called */
    /* The context for the next iteration, which provides none; NULL if no call is requested
     * there. */
    RedisModuleCtx *next_round;
    int64_t cron_ahead_us; /* as in struct now, at the last run of the cron */
    bool cron_looked;
    uint64_t clock_steps;
} timers;

/* The server's timer, for the first of all timers. */
static struct {
    bool is_set;
    RedisModuleTimerID id;
    int64_t at_us;    /* when it should fire, monotonic */
    int64_t ahead_us; /* as in struct now, when it was created */
} alarm;

struct now {
    int64_t us;       /* monotonic */
    int64_t ms;       /* unix time */
    int64_t ahead_us; /* how far the wall clock is ahead of the monotonic one */
};

static struct now timerLook(void) {
    struct now now = {.us = timerNow(), .ms = RedisModule_Milliseconds()};
    now.ahead_us = now.ms * 1000 - now.us;
    return now;
}

static bool differ(int64_t a_us, int64_t b_us, int64_t by_us) {
    return a_us - b_us > by_us || b_us - a_us > by_us;
}

void timerConnect(void (*watch_clock)(RedisModuleCtx *ctx), void (*after)(RedisModuleCtx *ctx)) {
    timers.watch = watch_clock;
    timers.after = after;
}

void timerRunAfter(void) {
    RedisModule_Assert(timers.calls);
    timers.runs_after = true;
}

int64_t timerAfter(int64_t ms) {
    int64_t now_us = timerNow();
    return ms > (INT64_MAX - now_us) / 1000 ? INT64_MAX : now_us + ms * 1000;
}

/* ---- the server's timer ---- */

static int64_t wallDelayUs(int64_t at_ms, int64_t now_ms) {
    int64_t delay_ms = at_ms > now_ms ? at_ms - now_ms : 0;
    return (delay_ms < LONGEST_TIMER_MS ? delay_ms : LONGEST_TIMER_MS) * 1000;
}

static int64_t delayUs(const struct heapNode *first, enum timerClock clock, const struct now *now) {
    if (clock == TIMER_WALL) {
        return wallDelayUs(first->at, now->ms);
    }
    return first->at > now->us ? first->at - now->us : 0;
}

/* The time until the first timer rings; INT64_MAX if none is set. */
static int64_t firstDelayUs(const struct now *now) {
    int64_t least_us = listIsEmpty(&timers.due) ? INT64_MAX : 0;
    for (int clock = 0; clock < TIMER_CLOCKS; clock++) {
        const struct heapNode *first = heapFirst(&timers.by_clock[clock]);
        int64_t delay_us = first ? delayUs(first, (enum timerClock)clock, now) : INT64_MAX;
        least_us = delay_us < least_us ? delay_us : least_us;
    }
    return least_us;
}

static void onAlarm(RedisModuleCtx *ctx, void *data);

static void stopAlarm(RedisModuleCtx *ctx) {
    if (alarm.is_set) {
        RedisModule_StopTimer(ctx, alarm.id, NULL);
        alarm.is_set = false;
    }
}

/* Whether the server's timer may fire later than it should: the wall clock has stepped since it was
 * created; or it is late already, because Redis from 7.2 on sleeps for as long as the first timer
 * seemed to be away when the clock was wrong for a moment. */
static bool isUnsure(const struct now *now) {
    return differ(now->ahead_us, alarm.ahead_us, JITTER_US) || alarm.at_us < now->us - JITTER_US;
}

/* A timer that fires too early is left as it is: it is created again when it fires. */
static void timerSetAlarm(RedisModuleCtx *ctx) {
    if (timers.calls || timers.next_round) {
        return; /* it is created afterwards */
    }
    const struct now now = timerLook();
    int64_t delay_us = firstDelayUs(&now);
    if (delay_us == INT64_MAX) {
        stopAlarm(ctx);
        return;
    }
    int64_t delay_ms = delay_us / 1000 + (delay_us % 1000 > 0);
    delay_ms = delay_ms < LONGEST_TIMER_MS ? delay_ms : LONGEST_TIMER_MS;
    int64_t at_us = now.us + delay_ms * 1000;
    if (!alarm.is_set || isUnsure(&now) || at_us < alarm.at_us) {
        stopAlarm(ctx);
        alarm.id = RedisModule_CreateTimer(ctx, delay_ms, onAlarm, NULL);
        alarm.is_set = true;
        alarm.at_us = at_us;
        alarm.ahead_us = now.ahead_us;
    }
}

static void onNextRound(void *data) {
    (void)data;
    RedisModuleCtx *ctx = timers.next_round;
    timers.next_round = NULL;
    timerSetAlarm(ctx);
    RedisModule_FreeThreadSafeContext(ctx);
}

static void setAlarmInNextRound(RedisModuleCtx *ctx) {
    if (!timers.next_round) {
        timers.next_round = RedisModule_GetDetachedThreadSafeContext(ctx);
        RedisModule_EventLoopAddOneShot(onNextRound, NULL);
    }
}

bool timerIsQuiet(void) {
    return !timers.next_round;
}

bool timerCron(RedisModuleCtx *ctx) {
    const struct now now = timerLook();
    bool has_stepped = timers.cron_looked && differ(now.ahead_us, timers.cron_ahead_us, STEP_US);
    timers.cron_looked = true;
    timers.clock_steps += has_stepped;
    timers.cron_ahead_us = now.ahead_us;
    if (alarm.is_set && isUnsure(&now)) {
        timerSetAlarm(ctx);
    }
    return has_stepped;
}

/* ---- ringing ---- */

static struct timer *ofHeap(struct heapNode *node) {
    return LIST_ELEMENT_OR_NULL(node, struct timer, place);
}

/* Only some: to remove ten thousand due timers one by one costs as much as to ring them. */
static void collectDueOf(enum timerClock clock, int64_t now) {
    struct heap *heap = &timers.by_clock[clock];
    struct timer *timer;
    for (int i = 0; i < MOST_OF_CLOCK; i++) {
        timer = ofHeap(heapFirst(heap));
        if (!timer || timer->place.at > now) {
            return;
        }
        heapRemove(heap, &timer->place);
        timer->is_due = true;
        listAddLast(&timers.due, &timer->in_due);
    }
}

static void timerTakeOut(struct timer *timer) {
    if (timer->is_due) {
        listRemove(&timers.due, &timer->in_due);
    } else {
        heapRemove(&timers.by_clock[timer->clock], &timer->place);
    }
    timer->is_due = timer->is_set = false;
}

/* Collects what is due. Timers that are set meanwhile ring later, whatever the clocks do. */
static void collectDue(const struct now *now) {
    if (listIsEmpty(&timers.due)) {
        collectDueOf(TIMER_MONOTONIC, now->us);
        collectDueOf(TIMER_WALL, now->ms);
    }
}

/* If this is called early, the wall clock has stepped since the server read it: then the server
 * would call a new timer at once. */
static void onAlarm(RedisModuleCtx *ctx, void *data) {
    (void)data;
    const struct now now = timerLook();
    bool is_early = now.us < alarm.at_us - JITTER_US;
    alarm.is_set = false;
    collectDue(&now);
    timers.calls = true;
    while (!listIsEmpty(&timers.due)) {
        struct timer *timer = LIST_ELEMENT(timers.due.first, struct timer, in_due);
        timerTakeOut(timer);
        timer->ring(ctx, timer);
        if (timers.runs_after) {
            timers.runs_after = false;
            timers.after(ctx);
        }
        if (timerNow() - now.us > SLICE_US) {
            break;
        }
    }
    timers.calls = false;
    if (is_early) {
        setAlarmInNextRound(ctx);
    } else {
        timerSetAlarm(ctx);
    }
}

/* ---- setting and stopping ---- */

static void setBy(RedisModuleCtx *ctx, struct timer *timer, enum timerClock clock, int64_t at) {
    if (timer->is_set) {
        timerTakeOut(timer);
    }
    if (timerMemory() == 0) {
        timers.watch(ctx);
    }
    timer->clock = clock;
    timer->is_set = true;
    heapPut(&timers.by_clock[clock], &timer->place, at);
    timerSetAlarm(ctx);
}

void timerSet(RedisModuleCtx *ctx, struct timer *timer, int64_t at_us,
              void (*ring)(RedisModuleCtx *ctx, struct timer *timer)) {
    timer->ring = ring;
    setBy(ctx, timer, TIMER_MONOTONIC, at_us);
}

void timerSetWall(RedisModuleCtx *ctx, struct timer *timer, int64_t at_ms,
                  void (*ring)(RedisModuleCtx *ctx, struct timer *timer)) {
    timer->ring = ring;
    setBy(ctx, timer, TIMER_WALL, at_ms);
}

void timerStop(RedisModuleCtx *ctx, struct timer *timer) {
    if (timer->is_set) {
        timerTakeOut(timer);
        if (timerMemory() == 0 && listIsEmpty(&timers.due)) {
            stopAlarm(ctx);
        }
    }
}

uint64_t timerClockSteps(void) {
    return timers.clock_steps;
}

int64_t timerLeftMs(const struct timer *timer) {
    int64_t now = timer->clock == TIMER_WALL ? RedisModule_Milliseconds() : timerNow();
    int64_t left = timer->place.at > now ? timer->place.at - now : 0;
    return timer->clock == TIMER_WALL ? left : left / 1000 + (left % 1000 > 0);
}

size_t timerMemory(void) {
    size_t count = 0;
    for (int clock = 0; clock < TIMER_CLOCKS; clock++) {
        count += timers.by_clock[clock].count > 0;
    }
    return count;
}
