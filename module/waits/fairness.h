/* Keeps a fair queue in memory and in its keys the same (docs/design.md, "The fair queue
 * survives").
 *
 * Memory is authoritative: positions are added and removed there, also in callbacks that may not
 * write, and what the keys do not show yet is recorded in the lock as a pending change.
 * fairnessWriteDown brings the keys up to date. It is part of every grant pass and of every fair
 * request, so a change is written in the transaction of the command that made it, or by the drain.
 *
 * Once for each lock, in each process, it is the other way round: fairnessLoad reads the positions
 * that were stored before the process started, or became a master, from the keys into memory. They
 * are detached until their owners come back.
 */
#ifndef LOCK_FAIRNESS_H
#define LOCK_FAIRNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "keys/fairqueue.h"
#include "redismodule.h"
#include "waits/contended.h"
#include "waits/waiters.h"

/* Opens the keys of the lock `name` in the selected database, reads all their positions into
 * memory, and brings the keys up to date, as far as the time slice allows. Every fair request
 * begins with this, after keynamesSidesAreHere. RESULT_DONE; RESULT_WRONG_TYPE if another client
 * has stored another type under one of the keys; RESULT_KEY_IN_USE. Unless the result is
 * RESULT_DONE, nothing is changed, and there is nothing to close.
 *
 * While `fq` is open no other code may write the keys: close it before a grant pass. */
enum result fairnessOpen(struct fairqueue *fq, RedisModuleCtx *ctx, RedisModuleString *name,
                         int64_t now_ms);

/* For other requests, which only need to know the waiters: reads the stored positions into memory,
 * if that has not been done, the keys are of the right type, and their slot is not being moved.
 * RESULT_DONE, or RESULT_KEY_IN_USE: the waiters cannot be known yet. */
enum result fairnessLoad(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms);

/* The fair waiter of this owner, attached or not, or NULL. */
struct waiter *fairnessFind(struct lock *lock, RedisModuleString *owner);

/* Writes the position of a fair waiter that has just been added to this lock's queue, or has taken
 * a position over, to the keys. */
void fairnessEnter(struct fairqueue *fq, struct lock *lock, struct waiter *waiter, int64_t now_ms);

/* Brings the keys up to date, and extends their expiry if it is time to. Cheap when there is
 * nothing to do. While the slot of the lock is being moved to another node, or the keys are in use,
 * the keys are left alone and the pending changes are kept. Returns false if some of them are still
 * to be written: the time slice ended first, or the keys are in use, and then the lock is put
 * off. */
bool fairnessWriteDown(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms);

/* The keys have been flushed: removes the reserved positions, which are gone with the keys, and
 * marks the others to be written again by fairnessWriteDown. The lock must be in use
 * (blockingkeyUse). Returns false if the time slice ended first: call it again. */
bool fairnessFlushed(RedisModuleCtx *ctx, struct lock *lock);

/* Sets the ends of reserved positions. With the flag CONTENDED_RESERVES_BEGIN, a quarantine has
 * ended: they end lock.fair-reserve from now. Usually that was expected, and there is nothing to
 * do. With CONTENDED_RESERVES_CONFIGURED, lock.fair-reserve has been changed: positions that would
 * end later than that from now end then. The lock must be in use (blockingkeyUse) and still have
 * the flag. Returns false if the time slice ended first: call it again. */
bool fairnessCountReserves(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms);

/* When fairnessWriteDown has something to do although no position changes; INT64_MAX: never. */
int64_t fairnessNextLook(const struct lock *lock);

#endif
