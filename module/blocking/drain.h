/* The drain: the one place outside a client's command where the module writes.
 *
 * Callbacks only take notes, and set the alarm. Its timer runs the drain, which does the jobs in
 * the order of a table that module.c gives it. A timer, because only there is a write allowed, and
 * replicated as a whole (docs/design.md, "The two truths").
 */
#ifndef LOCK_DRAIN_H
#define LOCK_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

/* One kind of work. Each function does what the time slice has time for (turn.h), and sets the
 * alarm again for the rest. */
struct drainJob {
    /* Works the notes off. The server may be written to; a single key may still be refused. */
    void (*work)(RedisModuleCtx *ctx, int64_t now_ms);
    /* The server is a replica: drops what is the master's to do. NULL: nothing. */
    void (*forget)(RedisModuleCtx *ctx);
    /* Nothing may be written for now (serverWritableNow); the drain runs again in a while. NULL:
     * nothing. */
    void (*hold)(RedisModuleCtx *ctx, int64_t now_ms);
};

/* Says, once at load, what the drain does; `done` is called at the end of each run. */
void drainConnect(const struct drainJob *jobs, size_t count, void (*done)(void));

/* The drain will run after `delay_ms`; 0 = as soon as the running command or callback is over. Of
 * several the earliest counts: who wants the drain later sets the alarm again when it runs. Allowed
 * in every callback. */
void drainSetAlarm(RedisModuleCtx *ctx, int64_t delay_ms);

/* Nothing announces the end of a pause, of a load or of a refusal: runs the drain again after a
 * while. */
void drainRetry(RedisModuleCtx *ctx);

/* Runs the drain now, or sets the alarm if it has run within the last millisecond. Only for the
 * callback of a timer, where writes are allowed: a second timer would come up to a millisecond
 * later. */
void drainRunSoon(RedisModuleCtx *ctx);

/* For who has made another timer in a callback that may be called when the server is about to
 * sleep: Redis 7.0 has decided by then how long, without that timer. */
void drainWakeLoop(void);

/* Whether the server will call nothing here but timers. Of those it knows itself, and does not
 * unload the module meanwhile; of what is to wake its event loop it does not. */
bool drainIsQuiet(void);

#endif
