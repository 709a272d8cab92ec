/* The module's timers: each rings once, by one of two clocks.
 *
 * The monotonic clock is for how long something lasts: setting the server's wall clock changes
 * nothing. The wall clock is for what is due at a unix time that stands in a key.
 *
 * The trap: the server's timers go by the wall clock. When that is set back, they call as much later;
 * and while the server is calling them, it takes a timer that is made meanwhile for due, again and
 * again, and answers nobody for as long as the step was. So all timers are here in two heaps, and the
 * server has one timer for the first of them: it is made anew when the wall clock has stepped, which
 * the server's cron notices (timerCron), and if it is called early, that is done in the next iteration
 * of the event loop. While none is set the server has no timer, and the heaps no memory.
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

/* All zero is one that is not set. It has to be stopped before its memory goes. */
struct timer {
    void (*ring)(RedisModuleCtx *ctx, struct timer *timer);
    struct heapNode place; /* `at`: when it rings, or has rung; monotonic µs, or unix ms */
    enum timerClock clock;
    bool is_set;
    bool is_due; /* it rings in this iteration of the event loop, or in one of the next */
    struct link in_due;
};

/* The timer that is this member of something. */
#define TIMER_OWNER(timer_pointer, type, member) LIST_ELEMENT(timer_pointer, type, member)

/* Says, once at load, what sees to it that timerCron is called; it is called when the first timer is
 * set. */
void timerConnect(void (*watch_clock)(RedisModuleCtx *ctx));

/* Has `ring` called at this time of the monotonic clock, or soon if that has passed, and not when it
 * was to be called before. It is not set any more when it is called. */
void timerSet(RedisModuleCtx *ctx, struct timer *timer, int64_t at_us,
              void (*ring)(RedisModuleCtx *ctx, struct timer *timer));

/* The same, at this time of the wall clock. */
void timerSetWall(RedisModuleCtx *ctx, struct timer *timer, int64_t at_ms,
                  void (*ring)(RedisModuleCtx *ctx, struct timer *timer));

/* It will not ring. Nothing happens if it is not set. */
void timerStop(RedisModuleCtx *ctx, struct timer *timer);

/* For timerSet: the monotonic time now, and `ms` from now; INT64_MAX is for ever. */
int64_t timerNow(void);
int64_t timerAfter(int64_t ms);

/* Of a timer that is set: in how many ms it rings, rounded up; 0: it is due. */
int64_t timerLeftMs(const struct timer *timer);

/* How often the cron has seen that the wall clock was set. */
uint64_t timerClockSteps(void);

/* Ten times a second, as a rule: sets the server's timer anew if the wall clock has stepped. Returns
 * whether it has since the last call. */
bool timerCron(RedisModuleCtx *ctx);

/* Whether the server will call nothing here but its own timers. Of those it knows itself, and does not
 * unload the module meanwhile; of what is to be called in the next iteration it does not. */
bool timerIsQuiet(void);

/* How many pieces of memory the timers that are set take. Of the checking build. */
size_t timerMemory(void);

#endif
