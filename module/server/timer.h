/* The timers of the module. Each timer rings once, at a time of one of two clocks.
 *
 * The monotonic clock is for durations, because they do not change when the wall clock is set. The
 * wall clock is for actions that are due at a unix time that is stored in a key.
 *
 * The server's own timers cannot be used directly, because they use the wall clock. If the wall
 * clock is set back, they fire later by the same time. And if a timer is created while the server
 * calls its timers, the server considers the new timer due, again and again, and serves no client
 * for as long as the clock was set back. So all timers are kept here in two heaps, and the server
 * has only one timer, for the first of them. When the server's cron notices that the wall clock has
 * stepped (timerCron), the server's timer is created again. If the server's timer fires early, it
 * is created again in the next iteration of the event loop. While no timer is set, the server has
 * no timer, and the heaps use no memory.
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

/* A timer that is not set is all zero. A timer must be stopped before its memory is freed. */
struct timer {
    void (*ring)(RedisModuleCtx *ctx, struct timer *timer);
    struct heapNode place; /* `at` is when it rings, or has rung; monotonic µs, or unix ms */
    enum timerClock clock;
    bool is_set;
    bool is_due; /* it rings in this iteration of the event loop, or in one of the next */
    struct link in_due;
};

/* The struct of this type that contains this timer as `member`. */
#define TIMER_OWNER(timer_pointer, type, member) LIST_ELEMENT(timer_pointer, type, member)

/* To be called once, at load. `watch_clock` is called when a timer is set while no other timer is
 * set. It must make the server's cron call timerCron. `after` is what timerRunAfter requests. */
void timerConnect(void (*watch_clock)(RedisModuleCtx *ctx), void (*after)(RedisModuleCtx *ctx));

/* Requests that `after` of timerConnect is called when the callback of the timer that rings now has
 * returned. */
void timerRunAfter(void);

/* Makes the timer call `ring` at this time of the monotonic clock, in µs, or soon if that time has
 * passed. Replaces the time that was set before. When `ring` is called, the timer is no longer set.
 */
void timerSet(RedisModuleCtx *ctx, struct timer *timer, int64_t at_us,
              void (*ring)(RedisModuleCtx *ctx, struct timer *timer));

/* As timerSet, at this time of the wall clock, in unix ms. */
void timerSetWall(RedisModuleCtx *ctx, struct timer *timer, int64_t at_ms,
                  void (*ring)(RedisModuleCtx *ctx, struct timer *timer));

/* Stops the timer, so that it does not ring. Does nothing if the timer is not set. */
void timerStop(RedisModuleCtx *ctx, struct timer *timer);

/* For timerSet: the monotonic time now, and the monotonic time `ms` from now, in µs. INT64_MAX
 * means never. */
static inline int64_t timerNow(void) {
    return (int64_t)RedisModule_MonotonicMicroseconds();
}
int64_t timerAfter(int64_t ms);

/* In how many ms the timer, which must be set, rings, rounded up; 0 if it is due. */
int64_t timerLeftMs(const struct timer *timer);

/* How often the cron has noticed that the wall clock was set. */
uint64_t timerClockSteps(void);

/* To be called by the server's cron, which normally runs ten times a second. Creates the server's
 * timer again if the wall clock has stepped since the last call. Returns whether it has. */
bool timerCron(RedisModuleCtx *ctx);

/* Whether the server will call no function of this file, except from its timers. The server does
 * not unload the module while timers are set, but it does not check for functions that are to be
 * called in the next iteration. */
bool timerIsQuiet(void);

/* How many memory allocations the timers that are set use. For the checking build. */
size_t timerMemory(void);

#endif
