/* The quarantine. Nothing is granted for the time of lock.quarantine after the process has loaded
 * its data or has become a master. At the end of the quarantine all holds that the process does not
 * know of have expired. These are holds that another master has granted and has not sent to this
 * process, and holds that were granted after the last write to the files of this process.
 *
 * Only this file knows whether the quarantine is on. It is used by all code that grants: the
 * decision whether a request fits (grant/holding.c), the hand-off (grant/pass.c), the search for
 * cycles, and the reserves of the fair queue. Whether the quarantine is on does not change within
 * one command, one drain or one callback.
 *
 * The quarantine is measured by the monotonic clock, but the server's timers use the wall clock. If
 * the wall clock is set back, the server's cron detects the end of the quarantine, up to a tenth of
 * a second late.
 *
 * If lock.quarantine is not 0, the quarantine is also on after the server was stalled (stall.h),
 * until the server has counted its replicas. Otherwise a master that was stopped while another one
 * was promoted would grant as if nothing had happened. During this time it renews nothing either.
 */
#ifndef LOCK_QUARANTINE_H
#define LOCK_QUARANTINE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/features.h"
#include "redismodule.h"

/* The functions that the quarantine calls. Set once, at load. */
struct quarantineCalls {
    void (*watch)(RedisModuleCtx *ctx); /* makes the server's cron call quarantineCron */
    /* The quarantine has ended, and locks may be granted. Must only mark locks as due. */
    void (*over)(RedisModuleCtx *ctx);
};
void quarantineConnect(const struct quarantineCalls *calls);

/* To be called when the process has a new data set or a new role. The quarantine is measured from
 * now on, and is on if lock.quarantine is not 0. On a replica, which grants nothing, the quarantine
 * is off and no function is called. Allowed in every callback. */
void quarantineBegin(RedisModuleCtx *ctx);

/* To be called when lock.quarantine has been changed. The new value is applied as if it had been
 * set from the beginning, so this may begin or end the quarantine. */
void quarantineConfigured(RedisModuleCtx *ctx);

/* To be called after each run of the server's cron. Normally the cron runs `hz` times a second. */
void quarantineCron(RedisModuleCtx *ctx, int hz);

/* Whether the quarantine prevents a grant. To be called by code that grants. `now_ms` is the time
 * at which the lease would begin, unix ms. Begins the quarantine if the server was stalled. */
bool quarantineKeepsGrants(RedisModuleCtx *ctx, int64_t now_ms);
static inline bool quarantineKeeps(RedisModuleCtx *ctx, int64_t now_ms) {
    return featuresHas(FEATURE_QUARANTINE) && quarantineKeepsGrants(ctx, now_ms);
}

/* Whether the quarantine prevents the renewal of a lease that begins at `now_ms`, unix ms. It does
 * so only after the server was stalled, and not after a load or a promotion. */
bool quarantineKeepsRenewal(int64_t now_ms);

/* Whether the quarantine is on. Does not check whether the server was stalled. */
bool quarantineIsOn(void);

/* In how many ms the quarantine ends, at least 1; 0 if it is not on. */
int64_t quarantineLeftMs(void);

/* The beginning of a period that does not run during the quarantine, unix ms. Returns the end of
 * the quarantine, or `since_ms` if the quarantine is not on. */
int64_t quarantineEndOr(int64_t since_ms);

#endif
