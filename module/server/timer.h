/* The timers of the module: each rings once, by one of two clocks.
 *
 * The monotonic clock is for durations: setting the server's wall clock does not change them. The
 * wall clock is for what is due at a unix time that is stored in a key.
 *
 * The trap: the server's timers use the wall clock. If that is set back, they fire later by as
 * much; and while the server calls its timers, it takes a timer that is created meanwhile for due,
 * again and again, and serves no client for as long as the step was. So all timers are here in two
 * heaps, and the server has one timer, for the first of them. It is created again when the wall
 * clock has stepped, which the server's cron notices (timerCron); if it fires early, it is created
 * again in the next iteration of the event loop. While no timer is set, the server has no timer,
 * and the heaps have no memory.
 */
#ifndef LOCK_TIMER_H
#define LOCK_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/heap.h"
#include "core/list.h"
#include "redismodule.h"

enum timerClock { TIMER_MONOTONIC, TIMER_WALL, TIMER_CLOCKS };

/* All zero is a timer that is not set. It has to be stopped before its memory is freed. */
struct timer {
    void (*ring)(RedisModuleCtx *ctx, struct timer *timer);
    struct heapNode place; /* `at`: when it rings, or has rung; monotonic µs, or unix ms */
    enum timerClock clock;
    bool is_set;
    bool is_due; /* it rings in this iteration of the event loop, or in one of the next */
    struct link in_due;
};

/* The struct that has this timer as this member. */
#define TIMER_OWNER(timer_pointer, type, member) LIST_ELEMENT(timer_pointer, type, member)

/* To be called once, at load. `watch_clock` sees to it that timerCron is called; it is called when
 * a timer is set while no other is. */
void timerConnect(void (*watch_clock)(RedisModuleCtx *ctx));

/* Has `ring` called at this time of the monotonic clock, in µs, or soon if that has passed. This
 * replaces the time that was set before. The timer is no longer set when `ring` is called. */
void timerSet(RedisModuleCtx *ctx, struct timer *timer, int64_t at_us,
              void (*ring)(RedisModuleCtx *ctx, struct timer *timer));

/* The same, at this time of the wall clock, in unix ms. */
void timerSetWall(RedisModuleCtx *ctx, struct timer *timer, int64_t at_ms,
                  void (*ring)(RedisModuleCtx *ctx, struct timer *timer));

/* Stops the timer: it will not ring. Does nothing if it is not set. */
void timerStop(RedisModuleCtx *ctx, struct timer *timer);

/* For timerSet: the monotonic time now, in µs, and the one `ms` from now; INT64_MAX: never. */
int64_t timerNow(void);
int64_t timerAfter(int64_t ms);

/* In how many ms a timer that is set rings, rounded up; 0 if it is due. */
int64_t timerLeftMs(const struct timer *timer);

/* How often the cron has noticed that the wall clock was set. */
uint64_t timerClockSteps(void);

/* To be called by the server's cron, ten times a second as a rule: creates the server's timer again
 * if the wall clock has stepped. Returns whether it has stepped since the last call. */
bool timerCron(RedisModuleCtx *ctx);

/* Whether the server will call nothing here except its timers. The server knows of its timers, and
 * does not unload the module while there are any; it does not know of what is to be called in the
 * next iteration. */
bool timerIsQuiet(void);

/* How many allocations the timers that are set have. For the checking build. */
size_t timerMemory(void);

#endif
