/* The quarantine: for lock.quarantine after the process has loaded its data, or has become a
 * master, nothing is granted. By its end the holds have expired that the process does not know of:
 * those that another master has granted and not sent to it, and those that were granted after the
 * last write to its files.
 *
 * Only this file knows whether the quarantine is on. Code that grants asks here: the decision
 * whether a request fits (grant/holding.c), the hand-off (grant/pass.c), the search for cycles, and
 * the reserves of the fair queue. The answer does not change within one command, one drain or one
 * callback.
 *
 * It is measured by the monotonic clock. The server's timers use the wall clock: if that is set
 * back, the server's cron finds that the quarantine has ended, a tenth of a second late.
 *
 * If lock.quarantine is not 0, it is also on for as long as the server has not counted its replicas
 * since it was stalled (stall.h): a master that was stopped while another one was promoted
 * would otherwise grant as if nothing had happened. Then it renews nothing either.
 */
#ifndef LOCK_QUARANTINE_H
#define LOCK_QUARANTINE_H

#include <stdbool.h>
#include <stdint.h>

#include "redismodule.h"

/* What the quarantine calls; set once, at load. */
struct quarantineCalls {
    void (*watch)(RedisModuleCtx *ctx); /* has quarantineCron called from now on */
    /* The quarantine has ended, and locks may be granted. This must only mark what is due. */
    void (*over)(RedisModuleCtx *ctx);
};
void quarantineConnect(const struct quarantineCalls *calls);

/* The process has a data set, or a role, that it did not have before. The quarantine is measured
 * from now, and is on if lock.quarantine is not 0. Except on a replica, which grants nothing: there
 * it is off, and nothing is called. Allowed in every callback. */
void quarantineBegin(RedisModuleCtx *ctx);

/* lock.quarantine has been changed: it counts as if it had had this value from the beginning. This
 * may begin or end the quarantine. */
void quarantineConfigured(RedisModuleCtx *ctx);

/* To be called after each run of the server's cron, of which there are `hz` a second as a rule. */
void quarantineCron(RedisModuleCtx *ctx, int hz);

/* Whether the quarantine prevents a grant; to be called by code that grants. `now_ms` is when the
 * lease would begin, unix ms. Begins the quarantine if the server was stalled. */
bool quarantineKeeps(RedisModuleCtx *ctx, int64_t now_ms);

/* Whether the quarantine prevents the renewal of a lease that begins at `now_ms`, unix ms: not
 * because of a load or a promotion, but because the server was stalled. */
bool quarantineKeepsRenewal(int64_t now_ms);

/* Whether the quarantine is on. Does not test whether the server was stalled. */
bool quarantineIsOn(void);

/* In how many ms the quarantine ends, at least 1; 0 if it is not on. */
int64_t quarantineLeftMs(void);

/* From when a time counts that does not run during the quarantine, unix ms: from the end of the
 * quarantine, or from `since_ms` if it is not on. */
int64_t quarantineEndOr(int64_t since_ms);

#endif
