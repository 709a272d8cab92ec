/* The one timer that wakes the drain.
 *
 * Whoever takes a note that needs the drain sets the alarm. A timer, because only there is a write
 * allowed and replicated as a whole (docs/design.md, "The two truths").
 */
#ifndef LOCK_ALARM_H
#define LOCK_ALARM_H

#include <stdbool.h>
#include <stdint.h>

#include "redismodule.h"

/* Says, once at load, what the alarm calls. */
void alarmConnect(void (*drain)(RedisModuleCtx *ctx));

/* The drain will be called after `delay_ms`; 0 = as soon as the running command or callback is
 * over. Of several the earliest counts: who wants the drain later sets the alarm again when it runs. */
void alarmSet(RedisModuleCtx *ctx, int64_t delay_ms);

/* For who has made another timer in a callback that may be called when the server is about to sleep:
 * Redis 7.0 has decided by then how long, without that timer. */
void alarmWakeLoop(void);

/* Whether the server will call nothing here but timers. Of those it knows itself, and does not
 * unload the module meanwhile; of what is to wake its event loop it does not. */
bool alarmIsQuiet(void);

/* Runs the drain now, or sets the alarm if it has run within the last millisecond. Only for the
 * callback of a timer, where writes are allowed: a second timer would come up to a millisecond
 * later. */
void alarmRing(RedisModuleCtx *ctx);

#endif
