/* Fencing tokens: numbers that only grow for a key, whatever happens to the lock in between.
 *
 *   lock:token:{key}    hash {token: the last one, owner: who got it},
 *                       TTL = lock.token-retention after its last use
 *
 * A token is the unix time in µs, or more: so a key that was lost, with a flush, a restart or a
 * failover, still gives a larger one. What the process takes from its clock only grows, of whatever
 * lock: so a clock that steps back cannot make a token smaller either.
 *
 * Where the last token of a lock is ahead of that, the next one is larger by 1. It may be so after
 * the clock has stepped back over a restart, or because another client has written it; so it counts
 * for this lock alone. That no later write to the key makes the lock's next token smaller than one
 * that this process has given is kept in memory (given.h), of the last GIVEN_MOST locks.
 *
 * A re-entry keeps the last token, but only one that this process has given in this life of the
 * data: a record that came back with a snapshot, a promotion or a swap may be older than tokens that
 * were given meanwhile to others, and are lost.
 *
 * The only file that reads and writes this key. Each write announces itself (effects.h).
 */
#ifndef LOCK_FENCE_H
#define LOCK_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "keys/holds.h"
#include "redismodule.h"
#include "server/reply.h"

/* Whether this lock can give a token, asked before the lock is taken: RESULT_DONE; RESULT_WRONG_TYPE
 * where another client has put something else under the name; RESULT_KEY_IN_USE; RESULT_NO_TOKEN
 * where the last one is the largest there is. */
enum result fenceCheck(RedisModuleCtx *ctx, RedisModuleString *name);

/* The token of an acquisition by `owner` of this lock, which it has just taken: the last one if this is
 * a re-entry and the last one is the owner's and of this life, else a new one. Written down, unless the
 * key is of another type. Not where fenceCheck says RESULT_NO_TOKEN. */
int64_t fenceIssue(const struct holds *holds, RedisModuleString *owner, bool is_reentry);

/* The last token of this lock, or 0 if none is known. Changes nothing. */
int64_t fenceLast(RedisModuleCtx *ctx, RedisModuleString *name);

/* The keys come from an earlier life: the server has started, has been promoted, or has loaded a
 * data set. No token in them is given again. */
void fenceRestarted(void);

/* Whether a database has been swapped in this life: then that is kept until the life ends. */
bool fenceKeepsMemory(void);

/* Likewise for these two databases, which have changed places: one that has been swapped out is of
 * an earlier life when it comes back. */
void fenceSwapped(int first_db, int second_db);

#endif
