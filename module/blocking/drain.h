/* The drain: the one place outside a client's command where the module writes.
 *
 * Callbacks only record what happened, and set the alarm. Its timer runs the drain, which does the
 * jobs in the order of a table that module.c passes. A timer, because only there a write is allowed
 * and is replicated as a whole (docs/design.md, "The two truths").
 */
#ifndef LOCK_DRAIN_H
#define LOCK_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

/* One kind of work. Each function does as much as the time slice allows (timeslice.h), and sets the
 * alarm again for the rest. */
struct drainJob {
    /* Does the work that callbacks and commands have recorded. The server accepts writes; it may
     * still refuse one of a single key. */
    void (*work)(RedisModuleCtx *ctx, int64_t now_ms);
    /* The server is a replica: drops the work, which is the master's. NULL: nothing. */
    void (*forget)(RedisModuleCtx *ctx);
    /* Nothing may be written for now (serverWritableNow): does what needs no write. The drain runs
     * again after a while. NULL: nothing. */
    void (*hold)(RedisModuleCtx *ctx, int64_t now_ms);
};

/* To be called once, at load: what the drain does. `done` is called at the end of each run. */
void drainConnect(const struct drainJob *jobs, size_t count, void (*done)(void));

/* The drain runs after `delay_ms`; 0: as soon as the running command or callback has ended. Of
 * several alarms the earliest counts: a job that needs a later run sets the alarm again in its own
 * run. Allowed in every callback. */
void drainSetAlarm(RedisModuleCtx *ctx, int64_t delay_ms);

/* Runs the drain again after a while, because there is no event for the end of a pause, of a load
 * or of a refusal. */
void drainRetry(RedisModuleCtx *ctx);

/* Runs the drain now, or sets the alarm if it has run within the last millisecond. Only for the
 * callback of a timer, where writes are allowed: a second timer would be up to a millisecond
 * later. */
void drainRunSoon(RedisModuleCtx *ctx);

/* Wakes the event loop. For a caller that has set another timer in a callback that may run just
 * before the server sleeps: Redis 7.0 has then already decided how long, without that timer. */
void drainWakeLoop(void);

/* Whether the server has no callback of this file to call except timers. The server does not unload
 * the module while it knows of timers, but it does not check for callbacks that wake its event
 * loop. */
bool drainIsQuiet(void);

#endif
