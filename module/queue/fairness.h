/* Keeps the keys of a fair queue equal to the queue in memory (docs/design.md, "The fair queue
 * survives").
 *
 * Memory is authoritative. Positions are added and removed there, also in callbacks that must not
 * write. A change that has not been written to the keys yet is recorded in the lock as a pending
 * change. fairnessWriteDown brings the keys up to date. It is part of every grant pass and of every
 * fair request, so a change is written in the transaction of the command that made it, or by the
 * drain.
 *
 * Only the first use of a lock in each process is different. fairnessLoad then reads from the keys
 * the positions that were stored before the process started or became a master. These positions are
 * detached until their owners send a request again.
 */
#ifndef LOCK_FAIRNESS_H
#define LOCK_FAIRNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "keys/fairqueue.h"
#include "queue/waiters.h"
#include "redismodule.h"
#include "waits/contended.h"

/* Opens the keys of the fair queue of the lock `name` in the selected database, reads all their
 * positions into memory, and brings the keys up to date, as far as the time slice allows. Every
 * fair request begins with this, after keynamesSidesAreHere. Returns RESULT_DONE,
 * RESULT_KEY_IN_USE, or RESULT_WRONG_TYPE if another client has written a key of another type under
 * one of the names. Unless the result is RESULT_DONE, nothing is changed, and `fq` need not be
 * closed.
 *
 * While `fq` is open no other code may write the keys, so it must be closed before a grant pass. */
enum result fairnessOpen(struct fairqueue *fq, RedisModuleCtx *ctx, RedisModuleString *name,
                         int64_t now_ms);

/* For other requests, which only need to know the waiters. Reads the stored positions into memory,
 * unless they have been read already, a key is of another type, or the slot is being moved. Returns
 * RESULT_DONE, or RESULT_KEY_IN_USE if the waiters cannot be read now. */
enum result fairnessLoad(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms);

/* The fair waiter of this owner, attached or not, or NULL. */
struct waiter *fairnessFind(struct lock *lock, RedisModuleString *owner);

/* Writes to the keys the position of a fair waiter that has just been added to this lock's queue,
 * or that has just taken over a position. */
void fairnessEnter(struct fairqueue *fq, struct lock *lock, struct waiter *waiter, int64_t now_ms);

/* Whether the expiry of the keys is to be extended now. */
static inline bool fairnessNeedsRefresh(const struct lock *lock, int64_t now_ms) {
    return lock->fair.refresh_ms && now_ms >= lock->fair.refresh_ms;
}

/* Brings the keys up to date, and extends their expiry when it is time to do so. Cheap if there is
 * nothing to do. While the slot of the lock is being moved to another node, or the keys are in use,
 * the keys are not changed and the pending changes are kept. Returns false if changes are left to
 * be written because the time slice has ended, or because the keys are in use. In the latter case
 * the lock is put off. */
bool fairnessWriteChanges(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms);
static inline bool fairnessWriteDown(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms) {
    return (contendedIsWritten(lock) && !fairnessNeedsRefresh(lock, now_ms)) ||
           fairnessWriteChanges(ctx, lock, now_ms);
}

/* To be called when the keys have been flushed. Removes the reserved positions, because the flush
 * has removed their keys, and marks the others to be written again by fairnessWriteDown. The lock
 * must be in use (blockingkeyUse). Returns false if the time slice ended before this was finished.
 * In that case the caller must call it again. */
bool fairnessFlushed(RedisModuleCtx *ctx, struct lock *lock);

/* Sets the ends of reserved positions. With the flag CONTENDED_RESERVES_BEGIN, because a quarantine
 * has ended, their end becomes lock.fair-reserve from now. Usually they already have this end, and
 * there is nothing to do. With CONTENDED_RESERVES_CONFIGURED, because lock.fair-reserve has been
 * changed, the end of every position that would end later becomes lock.fair-reserve from now. The
 * lock must be in use (blockingkeyUse) and still have the flag. Returns false if the time slice
 * ended before this was finished. In that case the caller must call it again. */
bool fairnessCountReserves(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms);

/* When fairnessWriteDown must be called although no position has changed; INT64_MAX if never. */
static inline int64_t fairnessNextLook(const struct lock *lock) {
    return lock->fair.refresh_ms ? lock->fair.refresh_ms : INT64_MAX;
}

#endif
