/* Acquires or releases one hold, including its keyspace event, its binding to a connection, its
 * fencing token and its counters. Every hold is acquired here, at once or after a wait, and is
 * released here. The lock is handed off to the next owner in pass.c. */
#ifndef LOCK_HOLDING_H
#define LOCK_HOLDING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/reply.h"
#include "common/stats.h"
#include "core/rules.h"
#include "keys/holds.h"
#include "ledger/pendingreply.h"
#include "redismodule.h"
#include "waits/request.h"

/* Whether this request, or its wait, also writes side keys (keynames.h). */
static inline bool holdingHasSides(const struct request *wants) {
    return wants->fenced || wants->discipline == FAIR || wants->lock.mode != MODE_EXCLUSIVE;
}

/* Whether the lock can be read and changed. Returns:
 *
 *   RESULT_DONE          it can
 *   RESULT_WRONG_TYPE    the key is not a hash
 *   RESULT_TRY_AGAIN     it is a read-write lock or a semaphore whose slot is being moved
 *   RESULT_KEY_IN_USE    the key, or its leases, are in use (see keynamesIsInUse)
 */
enum result holdingCheck(const struct holds *holds);

/* Whether the leases and the token that the request writes when it acquires the lock can be
 * written. RESULT_DONE, RESULT_WRONG_TYPE, RESULT_KEY_IN_USE, or RESULT_NO_TOKEN if there is no
 * larger token. Only for a lock that holdingCheck accepts. */
enum result holdingCheckSides(struct holds *holds, const struct request *wants);

/* Whether the owner has a hold, in any mode. Only for a lock that holdingCheck accepts. */
bool holdingIsHeld(struct holds *holds, RedisModuleString *owner);

/* Whether the owner holds the lock, in any mode. RESULT_DONE, RESULT_NOT_HELD, or what holdingCheck
 * returns. Changes nothing, except that expired holds are removed. */
enum result holdingCheckOwner(RedisModuleCtx *ctx, RedisModuleString *name,
                              RedisModuleString *owner, int64_t now_ms);

/* Whether the request can be granted now. It can if it fits the holds (rules 1 and 2 of
 * docs/design.md) and no quarantine is on. During a quarantine the verdict for a request that fits
 * is VERDICT_WAIT. Expired permits of a semaphore are removed first, as far as the request needs
 * them. Only for a lock that holdingCheck accepts. */
enum verdict holdingDecide(struct holds *holds, const struct request *wants);

/* Acquires the lock. `verdict` must be one that fits (rulesFits) and that was returned for this
 * handle. `pendingreply` is the pending reply that will report the hold, or NULL if the command
 * replies at once. If it is not NULL, the hold is added to it, and the hold is bound to a session
 * when the reply is delivered. Returns the owner's hold count in this mode, or with FENCED the
 * token. If the count would exceed its limit, returns 0 and changes nothing. */
int64_t holdingTake(struct holds *holds, const struct request *wants, enum verdict verdict,
                    struct pendingreply *pendingreply);

/* The counter for a grant inside a command. */
enum statsCounter holdingCountedAs(enum verdict verdict);

/* Which hold is to be released. */
enum holdingWhich { HOLDING_ONLY_MODE, HOLDING_READ, HOLDING_WRITE, HOLDING_PERMITS };

/* Determines which mode `which` means for this lock. With RESULT_DONE, stores it in `*mode`,
 * whether or not the owner has a hold in this mode. RESULT_BOTH_MODES if the owner has holds in
 * both modes and must name one. Or what holdingCheck returns. */
enum result holdingModeOf(struct holds *holds, RedisModuleString *owner, enum holdingWhich which,
                          enum lockMode *mode);

struct holdingRelease {
    RedisModuleString *owner;
    enum lockMode mode;
    int64_t count; /* of a semaphore, how many permits; otherwise 1 */
    bool is_lost;  /* no client has requested this: its reply was lost */
};

/* Releases one hold, or permits. Returns how many the owner has left in this mode. If it has fewer
 * than `count`, returns -1 and changes nothing. If holdingFrees is true for the result, the caller
 * must hand the lock off. */
int64_t holdingRelease(struct holds *holds, const struct holdingRelease *release);

/* Whether the lock may be granted to another owner after a release that has left the owner `left`
 * holds. It may after the release of the last hold, or of any permit. */
static inline bool holdingFrees(enum lockMode mode, int64_t left) {
    return left == 0 || (left > 0 && mode == MODE_SEMAPHORE);
}

#endif
