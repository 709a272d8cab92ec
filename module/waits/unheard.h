/* Grants that nobody has followed up: holds that were granted after a wait, and of which nothing has
 * been said since, neither by the connection that was told of the grant nor by anybody for their
 * owner. Where a client library has given up reading and kept its connection, nobody knows of the
 * hold, and it lasts as long as its lease: a *ghost*.
 *
 * Whoever asks pays: whether a connection has said anything is asked of the server when somebody
 * looks. What the module hears anyhow is noted at once: a request for a lock by that connection,
 * because the server tells only the name of a connection's last command; and whatever is said for
 * the owner.
 *
 * At most UNHEARD_MOST are known, the latest. They stand in memory that is not allocated; of the
 * server's there are their names and owners, at most UNHEARD_LONGEST bytes for each: what is longer
 * is not recorded, so that all together take 1 MiB. A record is dropped with its hold. When another
 * client or the server has changed the key, the drain looks whether the hold is still there. What
 * ends without an event, as one reader's lease does among others, goes when a client asks.
 */
#ifndef LOCK_UNHEARD_H
#define LOCK_UNHEARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/holds.h"
#include "redismodule.h"
#include "waits/unheardrecords.h"

/* The connection has been told just now. */
void unheardBegin(const struct unheardGrant *grant);

/* What follows is one comparison when no grant is known. */

/* Somebody has spoken for the owner of these holds, in the selected database; or they are over. */
void unheardFollowedUp(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner);

/* The connection of the running command asks for a lock. */
void unheardAsked(RedisModuleCtx *ctx);

/* All holds of this lock in the selected database are over. */
void unheardForced(RedisModuleCtx *ctx, RedisModuleString *name);

/* All in this database are, or in all. */
#define UNHEARD_EVERY_DB (-1)
void unheardFlushed(int db);

/* Another client or the server has changed this key, or removed it. Only notes it: allowed in every
 * callback. */
void unheardKeyChanged(RedisModuleCtx *ctx, int db, RedisModuleString *name);

/* The drain's job: drops those of which the key has changed and that are not there any more. */
void unheardLookAtDue(RedisModuleCtx *ctx, int64_t now_ms);

/* SWAPDB has taken the holds to the other database. */
void unheardSwapped(int first_db, int second_db);

/* How many grants are known; some may have been followed up, or be over. */
size_t unheardCount(void);

/* For how many ms, until now, nothing has been said after the first grant of these holds; -1:
 * something has, or they were not granted after a wait. */
int64_t unheardFor(RedisModuleCtx *ctx, const struct holdsOwner *of, int64_t now_ms);

struct unheardSummary {
    size_t grants;
    int64_t oldest_ms; /* how old the oldest of them is; 0: there is none */
};

/* Looks at all. For INFO, which has no context to give. */
struct unheardSummary unheardLook(void);

#endif
