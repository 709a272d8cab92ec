/* What commands do with one lock that is held or waited for: release, renew, force, cancel.
 *
 * All functions work in the selected database of `ctx` and with the time `now_ms` that the caller
 * read once.
 */
#ifndef LOCK_GRANT_H
#define LOCK_GRANT_H

#include <stdint.h>

#include "grant/giveback.h"
#include "grant/grantresult.h"
#include "redismodule.h"

/* Releases one hold and hands the lock on. GRANT_DONE (`count`: holds left in its mode),
 * GRANT_NOT_HELD, GRANT_BOTH_MODES or GRANT_WRONG_TYPE. */
enum grantResult grantRelease(RedisModuleCtx *ctx, RedisModuleString *name,
                              RedisModuleString *owner, enum releaseWhich which, int64_t now_ms,
                              struct grantOutcome *outcome);

/* Whether the owner holds the lock, in whatever mode: GRANT_DONE, GRANT_NOT_HELD or
 * GRANT_WRONG_TYPE. Takes nothing away but what is over. */
enum grantResult grantCheck(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                            int64_t now_ms);

/* What LOCK.RENEW does with the binding of the holds to a connection. */
enum grantBinding { BINDING_KEEP, BINDING_END, BINDING_NEW };

/* Gives the owner's holds a new lease from now, and with BINDING_NEW binds them to the connection
 * `session`. GRANT_DONE (`count`: its holds), GRANT_NOT_HELD or GRANT_WRONG_TYPE. */
enum grantResult grantRenew(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                            int64_t lease_ms, enum grantBinding binding, unsigned long long session,
                            int64_t now_ms, struct grantOutcome *outcome);

/* Frees the lock whoever holds it and hands it on. GRANT_DONE (`count`: 1, or 0 if it was free) or
 * GRANT_WRONG_TYPE. */
enum grantResult grantForce(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms,
                            struct grantOutcome *outcome);

/* Ends every wait of the owner for this lock; their clients get null. GRANT_DONE (`count`: 1, or 0
 * if it did not wait) or, when it did not wait, GRANT_WRONG_TYPE: somebody may wait for a key that
 * has been overwritten. */
enum grantResult grantCancel(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                             int64_t now_ms, struct grantOutcome *outcome);

#endif
