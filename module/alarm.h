/* The one timer that wakes the drain.
 *
 * Whoever takes a note that needs the drain sets the alarm. A timer, because only there is a write
 * allowed and replicated as a whole (docs/design.md, "The two truths").
 */
#ifndef LOCK_ALARM_H
#define LOCK_ALARM_H

#include <stdint.h>

#include "redismodule.h"

/* Says, once at load, what the alarm calls. */
void alarmConnect(void (*drain)(RedisModuleCtx *ctx));

/* The drain will be called after `delay_ms`; 0 = as soon as the running command or callback is
 * over. Does nothing when the alarm is set already. */
void alarmSet(RedisModuleCtx *ctx, int64_t delay_ms);

/* Runs the drain now. Only for the callback of a timer, where writes are allowed: a second timer
 * would come up to a millisecond later. */
void alarmRing(RedisModuleCtx *ctx);

#endif
