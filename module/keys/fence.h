/* Fencing tokens: numbers that only grow for a key, whatever happens to the lock in between.
 *
 *   lock:token:{key}    hash {token: the last one, owner: its owner},
 *                       TTL = lock.token-retention after its last use
 *
 * A token is the unix time in µs, or more: so if the key is lost, by a flush, a restart or a
 * failover, the next token is still larger. What the process takes from its clock only grows, for
 * all locks together: so a clock that goes back cannot make a token smaller either.
 *
 * If the last token of a lock is ahead of what the process would take from its clock, the next one
 * is larger by 1. It may be ahead because the clock went back over a restart, or because another
 * client has written it; so it affects this lock only. No later write to the key makes the lock's
 * next token smaller than one that this process has issued: the tokens of the last GIVEN_MOST locks
 * are kept in memory (given.h).
 *
 * A *life* of the data set begins when the process starts, loads data or changes its role, and for
 * two databases when they are swapped. A re-entry gets the last token again, but only one that this
 * process has issued in this life: a record that came back with a snapshot, a promotion or a swap
 * may be older than tokens that were issued to other owners meanwhile, and are lost.
 *
 * Only this file reads and writes this key. Each write is propagated (propagate.h).
 */
#ifndef LOCK_FENCE_H
#define LOCK_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "keys/holds.h"
#include "redismodule.h"
#include "server/reply.h"

/* Whether a token can be issued for this lock; to be called before the lock is taken. RESULT_DONE
 * if so; RESULT_WRONG_TYPE if another client has written a key of another type under the name;
 * RESULT_KEY_IN_USE; RESULT_NO_TOKEN if the last token is the largest there is. */
enum result fenceCheck(RedisModuleCtx *ctx, RedisModuleString *name);

/* Issues the token of an acquisition by `owner`, which has just taken this lock: the last token if
 * this is a re-entry and that token is the owner's and of this life, else a new one. Stores it,
 * unless the key is of another type. Must not be called if fenceCheck has returned
 * RESULT_NO_TOKEN. */
int64_t fenceIssue(const struct holds *holds, RedisModuleString *owner, bool is_reentry);

/* The last token of this lock, or 0 if none is known. Changes nothing. */
int64_t fenceLast(RedisModuleCtx *ctx, RedisModuleString *name);

/* A new life begins: the server has started, has been promoted, or has loaded a data set. No token
 * in the keys is issued again. */
void fenceRestarted(void);

/* Whether a database has been swapped in this life: memory is kept for that until the life ends. */
bool fenceKeepsMemory(void);

/* A new life begins for these two databases, which have been swapped: one that was swapped out is
 * of an earlier life when it comes back. */
void fenceSwapped(int first_db, int second_db);

#endif
