/* The module's timers: each rings once, at a time of day.
 *
 * The trap: the server reads the time of day, and then calls all timers that are due by it, those too that the
 * callbacks make meanwhile. By a clock that has stepped back just then such a timer is due at once, again and again,
 * and the server answers nobody for as long as the step was. So a timer that is called before its time is put off to
 * the next round of the event loop.
 *
 * When the time of day steps back at any other moment, a timer that is set rings as much later.
 */
#ifndef LOCK_TIMER_H
#define LOCK_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"
#include "redismodule.h"

/* All zero is one that is not set. It has to be stopped before its memory goes. */
struct timer {
    void (*ring)(RedisModuleCtx *ctx, struct timer *timer);
    RedisModuleTimerID id;
    int64_t at_ms; /* when it rings, if it is set: unix time */
    bool is_set;
    bool is_put_off;
    struct link in_put_off;
};

/* The timer that is this member of something. */
#define TIMER_OWNER(timer_pointer, type, member) LIST_ELEMENT(timer_pointer, type, member)

/* Has `ring` called at `at_ms`, or at once if that is over, and not when it was to be called before. Half an hour from
 * now at the latest, for the server cannot count further: whoever is called looks at the time and sets it again. It is
 * not set any more when it is called. */
void timerSet(RedisModuleCtx *ctx, struct timer *timer, int64_t at_ms, int64_t now_ms,
              void (*ring)(RedisModuleCtx *ctx, struct timer *timer));

/* It will not ring. Nothing happens if it is not set. */
void timerStop(RedisModuleCtx *ctx, struct timer *timer);

/* How long until `at_ms`, as far as a timer can count; 0 = it is over. */
int64_t timerDelay(int64_t at_ms, int64_t now_ms);

/* Whether the server will call nothing here but its own timers. Of those it knows itself, and does not unload the
 * module meanwhile; of what is to be called in the next round it does not. */
bool timerIsQuiet(void);

#endif
