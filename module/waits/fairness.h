/* Keeping a fair queue in memory and in its keys the same (docs/design.md, "The fair queue
 * survives").
 *
 * Memory leads: waiters come and go there, also in callbacks that may not write, and what the keys
 * do not show yet is noted in the lock. fairnessWriteDown brings the keys up to date; it is part of
 * every grant pass and of every fair request, so a change is written in the transaction of the
 * command that made it, or by the drain.
 *
 * Once in a process's life for each lock it is the other way round: fairnessLoad takes the positions
 * of an earlier life from the keys into memory, detached, for their owners to come back to.
 */
#ifndef LOCK_FAIRNESS_H
#define LOCK_FAIRNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "keys/fairqueue.h"
#include "redismodule.h"
#include "waits/contended.h"
#include "waits/waiters.h"

/* Opens the keys of the lock `name` in the selected database, and makes sure that memory knows all
 * their positions, and they all that memory knows. Every fair request begins with this, after it has asked
 * keynamesSidesAreHere. RESULT_DONE; RESULT_WRONG_TYPE
 * if another client has put something of another type under one of the keys; RESULT_KEY_IN_USE. Unless it
 * is RESULT_DONE nothing is changed, and there is nothing to close.
 *
 * While `fq` is open nobody else may write the keys: it is closed before a grant pass. */
enum result fairnessOpen(struct fairqueue *fq, RedisModuleCtx *ctx, RedisModuleString *name,
                         int64_t now_ms);

/* For other requests, which only have to know: takes positions of an earlier life into memory, if that
 * has not been done, the keys are of the right type, and their slot is not on the move. RESULT_DONE, or
 * RESULT_KEY_IN_USE: who waits is not known yet. */
enum result fairnessLoad(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms);

/* The fair waiter of this owner, attached or not, or NULL. */
struct waiter *fairnessFind(struct lock *lock, RedisModuleString *owner);

/* Writes down the position of a fair waiter that has just begun to stand in this lock's queue, or has
 * taken a position over. */
void fairnessEnter(struct fairqueue *fq, struct lock *lock, struct waiter *waiter, int64_t now_ms);

/* Brings the keys up to date, and puts off their expiry if it is time to. Cheap when there is
 * nothing to do. While the slot of the lock moves to another node, or the keys are in use, leaves
 * them alone: what is to be done stays noted. Returns false if the turn was over first, or the keys
 * are in use (then the lock is put off): some is still to be written down. */
bool fairnessWriteDown(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms);

/* The keys have been flushed: reserved positions are gone with them, and fairnessWriteDown will write
 * live ones again. The lock must be in use. Returns false if the turn was over first: then it is to
 * be called again. */
bool fairnessFlushed(RedisModuleCtx *ctx, struct lock *lock);

/* A quarantine is over: reserved positions end lock.fair-reserve from now. As a rule that was
 * foreseen, and there is nothing to do. Or that config has been changed: those that would end later
 * than that end then. The lock must be in use, and have the note that says which. Returns false if
 * the turn was over first: then it is to be called again. */
bool fairnessCountReserves(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms);

/* When fairnessWriteDown will have something to do even if nobody comes or goes; INT64_MAX = never.
 */
int64_t fairnessNextLook(const struct lock *lock);

#endif
