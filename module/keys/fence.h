/* Fencing tokens: numbers that only grow for a key, whatever happens to the lock in between.
 *
 *   lock:token:{key}    hash {token: the last token issued, owner: the owner it was issued to},
 *                       TTL = lock.token-retention after its last use
 *
 * A token is the unix time in µs, or a larger number. So if the key is lost, by a flush, a restart
 * or a failover, the next token is still larger. Tokens that this process takes from its clock
 * increase across all locks together, even if the clock goes back.
 *
 * If the number that the process would take from its clock is not larger than the last token of a
 * lock, the next token of this lock is the last one plus 1. This happens, for example, if the clock
 * went back during a restart, or if another client has written the token. It affects this lock
 * only, because a token that is read from a key never changes the tokens that are taken from the
 * clock for other locks.
 *
 * The last tokens of up to GIVEN_MOST locks are also kept in memory (given.h). For these locks, no
 * write to the key by another client makes the next token smaller than one that this process has
 * issued.
 *
 * A *life* is the time since the data set was last replaced. It begins when the process starts,
 * loads data or changes its role. SWAPDB begins a new life for its two databases only.
 *
 * A re-entry gets the last token again only if this process has issued that token in this life. The
 * key may have come back with a snapshot, a promotion or a swap. Then tokens that were issued to
 * other owners may be larger than the token in the key, and may be recorded nowhere.
 *
 * Only this file reads and writes this key. Each write is propagated (propagate.h).
 */
#ifndef LOCK_FENCE_H
#define LOCK_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/reply.h"
#include "keys/holds.h"
#include "redismodule.h"

/* Whether a token can be issued for this lock. To be called before the lock is acquired. Returns:
 *
 *   RESULT_DONE          a token can be issued
 *   RESULT_WRONG_TYPE    another client has written a key of another type under this name
 *   RESULT_KEY_IN_USE    the key is in use: see keynamesIsInUse
 *   RESULT_NO_TOKEN      the last token is the largest possible one
 */
enum result fenceCheck(RedisModuleCtx *ctx, RedisModuleString *name);

/* Issues a token to `owner`, which has just acquired this lock. A re-entry gets the last token if
 * this was issued to `owner` in this life; any other acquisition gets a new one. Stores the token,
 * unless the key is of another type. Must not be called if fenceCheck has returned
 * RESULT_NO_TOKEN. */
int64_t fenceIssue(const struct holds *holds, RedisModuleString *owner, bool is_reentry);

/* The token in the lock's key, or 0 if there is none. Changes nothing. */
int64_t fenceLast(RedisModuleCtx *ctx, RedisModuleString *name);

/* Begins a new life, because the server has started, has changed its role, or has loaded a data
 * set. No token that is in a key now is issued again. */
void fenceRestarted(void);

/* Whether a database has been swapped since fenceRestarted. If so, fence.c keeps a table of the
 * lives of the databases in memory, until the next fenceRestarted. */
bool fenceKeepsMemory(void);

/* Begins a new life for these two databases, which have been swapped. If they are swapped back, no
 * token in their keys is issued again. */
void fenceSwapped(int first_db, int second_db);

#endif
