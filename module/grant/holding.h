/* Acquires or releases one hold, with all that belongs to it: the event, the binding to a
 * connection, the fencing token, the counters. Every hold is acquired here, at once or after a
 * wait, and released here. Handing the lock off to the next owner is done in pass.c. */
#ifndef LOCK_HOLDING_H
#define LOCK_HOLDING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/rules.h"
#include "keys/holds.h"
#include "redismodule.h"
#include "server/reply.h"
#include "server/stats.h"
#include "waits/pendingreply.h"
#include "waits/request.h"

/* Whether such a request, or its wait, is also written to side keys. */
bool holdingHasSides(const struct request *wants);

/* Whether the lock can be read and changed: RESULT_DONE; RESULT_WRONG_TYPE; RESULT_TRY_AGAIN for a
 * read-write lock or a semaphore whose slot is being moved; RESULT_KEY_IN_USE. */
enum result holdingCheck(const struct holds *holds);

/* Whether the side keys that the request writes when it acquires the lock can be written: leases
 * and token. RESULT_DONE, RESULT_WRONG_TYPE, RESULT_KEY_IN_USE, or RESULT_NO_TOKEN if there is no
 * larger token. Only for a lock that holdingCheck accepts. */
enum result holdingCheckSides(struct holds *holds, const struct request *wants);

/* Whether the owner has a hold, in any mode. Only for a lock that holdingCheck accepts. */
bool holdingIsHeld(struct holds *holds, RedisModuleString *owner);

/* Whether the request can be granted now: it fits the holds (rules 1 and 2 of docs/design.md), and
 * no quarantine is on; during a quarantine a request that fits gets VERDICT_WAIT. Expired permits
 * of a semaphore are removed first, as far as the request needs them. Only for a lock that
 * holdingCheck accepts. */
enum verdict holdingDecide(struct holds *holds, const struct request *wants);

/* Acquires the lock. `verdict` is one that fits (rulesFits), and was returned for this handle.
 * `pendingreply`: the pending reply that will report the hold, to which it is added, and a session
 * is bound when the reply is delivered; NULL: the command replies at once. Returns the owner's hold
 * count in this mode, or with FENCED the token; 0: the count would exceed its limit, and nothing
 * has changed. */
int64_t holdingTake(struct holds *holds, const struct request *wants, enum verdict verdict,
                    struct pendingreply *pendingreply);

/* The counter for a grant inside a command. */
enum statsCounter holdingCountedAs(enum verdict verdict);

/* Which hold is to be released. */
enum holdingWhich { HOLDING_ONLY_MODE, HOLDING_READ, HOLDING_WRITE, HOLDING_PERMITS };

/* Which mode that is for this lock. RESULT_DONE: `*mode`, whether or not the owner has a hold in
 * it. RESULT_BOTH_MODES: it holds both and has to choose. Or what holdingCheck returns. */
enum result holdingModeOf(struct holds *holds, RedisModuleString *owner, enum holdingWhich which,
                          enum lockMode *mode);

/* Releases one hold in this mode, or `count` permits. Returns how many the owner has left in it, or
 * -1 if it had fewer: then nothing has changed. If holdingFrees is true for the result, the caller
 * must hand the lock off. */
int64_t holdingRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode,
                       int64_t count);

/* Whether a release after which the owner has `left` holds may let another owner in: that of its
 * last hold, or of any permit. */
bool holdingFrees(enum lockMode mode, int64_t left);

#endif
