/* The quarantine: so long after the process has loaded its data, or has become a master, nothing is
 * granted to anybody (lock.quarantine). What was granted by a master that this one has never heard
 * of, or after the last write to its files, has ended by then.
 *
 * The one place that knows whether it is on. Who grants asks here: what fits (grant/holding.c), the
 * hand-off (grant/pass.c), the search for cycles, the reserves of the fair queue. The answer is the
 * same for as long as one command, one drain or one callback lasts.
 *
 * It lasts by the monotonic clock. The server's timers go by the time of day: when that steps back
 * the server's cron finds that the end has come, a tenth of a second late.
 *
 * With lock.quarantine it is on, too, for as long as the server has not counted its replicas since
 * it stood still (standstill.h): a master that was stopped while another one was promoted would
 * grant as if nothing had happened. Then it renews nothing either.
 */
#ifndef LOCK_QUARANTINE_H
#define LOCK_QUARANTINE_H

#include <stdbool.h>
#include <stdint.h>

#include "redismodule.h"

/* Says, once at load, what is to be called. */
struct quarantineCalls {
    void (*watch)(RedisModuleCtx *ctx); /* has quarantineCron called from now on */
    void (*over)(RedisModuleCtx *ctx);  /* it was on, and locks may be granted; only takes notes */
};
void quarantineConnect(const struct quarantineCalls *calls);

/* The process has a data set, or a role, that it did not have before. It is counted from now, and
 * is on if lock.quarantine is not 0; but not on a replica, which grants nothing: there it is off,
 * and nothing is called. Allowed in every callback. */
void quarantineBegin(RedisModuleCtx *ctx);

/* lock.quarantine has been changed: as if it had been so from the beginning. May begin it, or end
 * it. */
void quarantineConfigured(RedisModuleCtx *ctx);

/* The server's cron, which is called `hz` times a second as a rule, has done its work. */
void quarantineCron(RedisModuleCtx *ctx, int hz);

/* Whether it keeps a lock from being granted; to be asked by who grants. `now_ms` is when the lease
 * would begin. */
bool quarantineKeeps(RedisModuleCtx *ctx, int64_t now_ms);

/* Whether it keeps a lease that begins at `now_ms` from being renewed: not because of a load or a
 * promotion, but because the server stood still. */
bool quarantineKeepsRenewal(int64_t now_ms);

/* As who grants has been told last. */
bool quarantineIsOn(void);

/* ms until it ends, at least 1; 0: it is not on. */
int64_t quarantineLeftMs(void);

/* From when a time counts that is not to run while it is on: from its end, unix ms, or from
 * `since_ms` if it is not on. */
int64_t quarantineEndOr(int64_t since_ms);

#endif
