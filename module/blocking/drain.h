/* The drain: the only place outside a client's command where the module writes keys.
 *
 * Callbacks only record what has happened, and set the alarm, which is a timer. The timer runs the
 * drain, which does its jobs in the order of a table that module.c passes. The drain runs in a
 * timer because only in a timer a write is allowed and is replicated as a whole (docs/design.md,
 * "The two truths").
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
    /* Does the work that callbacks and commands have recorded. The server accepts writes, but may
     * still refuse a write to a single key. */
    void (*work)(RedisModuleCtx *ctx, int64_t now_ms);
    /* Drops the work, because the server is a replica and the work is the master's. NULL if there
     * is nothing to do. */
    void (*forget)(RedisModuleCtx *ctx);
    /* Does the work that needs no write, because the server accepts no writes now
     * (serverWritableNow). The drain runs again after a while. NULL if there is no such work. */
    void (*hold)(RedisModuleCtx *ctx, int64_t now_ms);
};

/* Sets the jobs of the drain. To be called once, at load. `done` is called after each run. */
void drainConnect(const struct drainJob *jobs, size_t count, void (*done)(void));

/* Makes the drain run after `delay_ms`, or, if this is 0, as soon as the running command or
 * callback has ended. If the alarm is set more than once, only the earliest time is used. So a job
 * that needs a later run sets the alarm again when it runs. Allowed in every callback. */
void drainSetAlarm(RedisModuleCtx *ctx, int64_t delay_ms);

/* Makes the drain run again after a while. For a pause, a load or a refusal to write, because there
 * is no event for its end. */
void drainRetry(RedisModuleCtx *ctx);

/* Runs the drain now, or sets the alarm if the drain has run within the last millisecond. Only to
 * be called in the callback of a timer, where writes are allowed. The alarm is a second timer,
 * which would run up to a millisecond later. */
void drainRunSoon(RedisModuleCtx *ctx);

/* Wakes the event loop. To be called after a timer has been set in a callback that may run just
 * before the server sleeps, because Redis 7.0 has already decided by then how long it sleeps,
 * without regard to that timer. */
void drainWakeLoop(void);

/* Whether the server will call no function of this file, except from timers. The server does not
 * unload the module while timers are set, but it does not check for callbacks that wake its event
 * loop. */
bool drainIsQuiet(void);

#endif
