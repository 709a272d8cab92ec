/* The drain: the only place outside a client's command where the module writes keys.
 *
 * Callbacks only record what has happened, and request the kind of work that it makes necessary.
 * The drain does the kinds of work that are due, in the order of enum drainWork. It runs in a timer
 * because only in a timer a write is allowed and is replicated as a whole (docs/design.md, "The two
 * truths").
 */
#ifndef LOCK_DRAIN_H
#define LOCK_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

/* The kinds of work, in the order in which they are done. The order matters: grant passes run
 * before the search for cycles, because they may grant what a newcomer waits for; and holds of
 * clients that died, or that replicas have not acknowledged, are released before both. */
enum drainWork {
    DRAIN_LOST_HOLDS,     /* to release holds whose reply was lost */
    DRAIN_REFUSED_ACKS,   /* to release holds that replicas have not acknowledged */
    DRAIN_KEYS,           /* to check the keys that are due */
    DRAIN_CANCELLATIONS,  /* to end cancelled waits */
    DRAIN_CYCLES,         /* to search for cycles */
    DRAIN_DELAYED_QUEUES, /* to deliver what is due */
    DRAIN_SCAN,           /* to look for delayed queues that another server has written */
    DRAIN_ACKS_END,       /* to stop watching the event loop */
    DRAIN_CHANGED_GRANTS, /* to check unconfirmed grants whose key has changed */
    DRAIN_NULL_REPLIES,   /* to send null to clients */
    DRAIN_WORK_COUNT
};

/* How one kind of work is done. Each function does as much as the time slice allows (timeslice.h),
 * and requests the rest again. */
struct drainJob {
    /* Does the work that callbacks and commands have recorded. The server accepts writes, but may
     * still refuse a write to a single key. */
    void (*work)(RedisModuleCtx *ctx, int64_t now_ms);
    /* Drops the work, because the server is a replica and the work is the master's. NULL if there
     * is nothing to do. */
    void (*forget)(RedisModuleCtx *ctx);
    /* Does the work that needs no write, because the server accepts no writes now
     * (serverWritableNow). The work is due again after a while. NULL if there is no such work. */
    void (*hold)(RedisModuleCtx *ctx, int64_t now_ms);
};

/* Sets the jobs of the drain, one for each kind of work. To be called once, at load. `done` is
 * called after each run. */
void drainConnect(const struct drainJob jobs[DRAIN_WORK_COUNT], void (*done)(void));

/* Makes this work due in `delay_ms`, or, if this is 0, as soon as the running command or callback
 * has ended, unless it is due earlier. Allowed in every callback. */
void drainSetAlarm(RedisModuleCtx *ctx, enum drainWork work, int64_t delay_ms);

/* Makes this work due again after a while. For a pause, a load or a refusal to write, because there
 * is no event for its end. */
void drainRetry(RedisModuleCtx *ctx, enum drainWork work);

/* There is none of this work left, although it has been requested. */
void drainClearAlarm(enum drainWork work);

/* Makes this work due, and has the drain run when the callback of the timer in which this is called
 * has returned, or a little later if the drain has run within the last millisecond. Only to be
 * called in the callback of a timer. */
void drainRunSoon(RedisModuleCtx *ctx, enum drainWork work);

/* The drain, for timerConnect: runs after the callback of a timer that has called drainRunSoon. */
void drainRun(RedisModuleCtx *ctx);

/* Wakes the event loop. To be called after a timer has been set in a callback that may run just
 * before the server sleeps, because Redis 7.0 has already decided by then how long it sleeps,
 * without regard to that timer. */
void drainWakeLoop(void);

/* Whether the server will call no function of this file, except from timers. The server does not
 * unload the module while timers are set, but it does not check for callbacks that wake its event
 * loop. */
bool drainIsQuiet(void);

#endif
