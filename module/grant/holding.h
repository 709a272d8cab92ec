/* One hold, taken or released, with all that belongs to it: the event, the binding to a connection,
 * the fencing token, the counters. Whoever gets a lock, at once or after a wait, gets it here, and
 * whoever releases one does so here. Short of handing the lock off, which is pass.c's.
 */
#ifndef LOCK_HOLDING_H
#define LOCK_HOLDING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/rules.h"
#include "keys/holds.h"
#include "redismodule.h"
#include "server/reply.h"
#include "server/stats.h"
#include "waits/acquisition.h"
#include "waits/inflight.h"

/* Whether a request of this kind, or its wait, is written down in side keys too. */
bool holdingHasSides(const struct acquisition *wants);

/* Whether the lock can be looked at and changed: RESULT_DONE; RESULT_WRONG_TYPE; RESULT_TRY_AGAIN
 * for a read-write lock whose slot moves; RESULT_KEY_IN_USE. */
enum result holdingCheck(const struct holds *holds);

/* Whether what the request writes to side keys when it takes the lock can be written there: leases
 * and token. RESULT_DONE, RESULT_WRONG_TYPE or RESULT_KEY_IN_USE. Not of a lock that holdingCheck
 * refuses. */
enum result holdingCheckSides(struct holds *holds, const struct acquisition *wants);

/* Whether the owner has a hold, in whatever mode. Not of a lock that holdingCheck refuses. */
bool holdingIsHeld(struct holds *holds, RedisModuleString *owner);

/* Whether what is wanted may be had now: it fits the holds (rules 1 and 2), and no quarantine is
 * on; what would fit but for that has to wait. Of a semaphore what is over goes first, as far as
 * its permits are needed. Not of a lock that holdingCheck refuses. */
enum verdict holdingDecide(struct holds *holds, const struct acquisition *wants);

/* Takes the lock; `verdict` is one that fits (rulesFits), and was given for this handle. `inflight`
 * is the answer that will tell of it, NULL when it is told at once; what was done is added to it,
 * and a session is bound when it is told. Returns the owner's hold count in this mode, or with
 * `fenced` the token; 0 when the count would exceed its limit: then nothing is changed. */
int64_t holdingTake(struct holds *holds, const struct acquisition *wants, enum verdict verdict,
                    struct inflight *inflight);

/* What a grant in a command is counted as. */
enum statsCounter holdingCountedAs(enum verdict verdict);

/* Which hold is to be released. */
enum holdingWhich { HOLDING_ONLY_MODE, HOLDING_READ, HOLDING_WRITE, HOLDING_PERMITS };

/* Which mode that is for this lock. RESULT_DONE (`*mode`; whether the owner has a hold in it is not
 * said), RESULT_BOTH_MODES, or what holdingCheck says. */
enum result holdingModeOf(struct holds *holds, RedisModuleString *owner, enum holdingWhich which,
                          enum lockMode *mode);

/* Releases one hold in this mode, or `count` permits. Returns how many the owner has left in it, or
 * -1 if it had fewer: then nothing is changed. Where holdingFrees says so the caller hands the lock
 * off. */
int64_t holdingRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode,
                       int64_t count);

/* Whether a release that leaves the owner so many may let somebody in: its last hold, or any
 * permit. */
bool holdingFrees(enum lockMode mode, int64_t left);

#endif
