/* Unconfirmed grants: holds that were granted after a wait, and that nobody has confirmed since. A
 * grant is confirmed when the connection that received it has sent another command, or any client
 * has sent one for its owner. If a client library has stopped reading and kept its connection open,
 * no client knows about the hold, and it lasts as long as its lease: an *orphaned grant*.
 *
 * The cost is paid by LOCK.INFO and INFO: only then is the server queried whether a connection has
 * sent another command. Two things the module notices itself, at once: a request for a lock by that
 * connection, which must be recorded because the server reports only the name of a connection's
 * last command; and any command for the owner.
 *
 * Only the latest UNCONFIRMED_MOST grants are recorded, in static memory. Their names and owners
 * are strings of the server, at most UNCONFIRMED_LONGEST bytes for each grant: a longer one is not
 * recorded, so all strings together take at most 1 MiB. A record is removed with its hold. When
 * another client or the server has changed the key, the drain checks whether the hold still exists.
 * A hold that ends without an event, such as one reader's lease among others, is removed when a
 * client asks.
 */
#ifndef LOCK_UNCONFIRMED_H
#define LOCK_UNCONFIRMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/holds.h"
#include "redismodule.h"
#include "waits/unconfirmedrecords.h"

/* Records the grant: its connection has just been sent the reply. */
void unconfirmedBegin(const struct unconfirmedGrant *grant);

/* Each of the following functions is one comparison while no grant is recorded. */

/* A client has sent a command for the owner of these holds, in the selected database; or the holds
 * have ended. */
void unconfirmedEnd(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner);

/* The connection of the running command requests a lock. */
void unconfirmedRequested(RedisModuleCtx *ctx);

/* All holds on this lock in the selected database have ended. */
void unconfirmedForced(RedisModuleCtx *ctx, RedisModuleString *name);

/* All holds in this database have ended, or with UNCONFIRMED_EVERY_DB all holds. */
#define UNCONFIRMED_EVERY_DB (-1)
void unconfirmedFlushed(int db);

/* Another client or the server has changed or removed this key. Only marks the records for the
 * drain: allowed in every callback. */
void unconfirmedKeyChanged(RedisModuleCtx *ctx, int db, RedisModuleString *name);

/* The drain's job: removes the records whose key has changed and whose hold no longer exists. */
void unconfirmedLookAtDue(RedisModuleCtx *ctx, int64_t now_ms);

/* SWAPDB has moved the holds to the other database. */
void unconfirmedSwapped(int first_db, int second_db);

/* How many grants are recorded. Some may have been confirmed, or have ended, without a check
 * since. */
size_t unconfirmedCount(void);

/* How many ms ago, at `now_ms`, the first unconfirmed grant of these holds was made; -1: they are
 * confirmed, or were not granted after a wait. */
int64_t unconfirmedFor(RedisModuleCtx *ctx, const struct holdsOwner *of, int64_t now_ms);

struct unconfirmedSummary {
    size_t grants;
    int64_t oldest_ms; /* the age of the oldest; 0: there is none */
};

/* Checks all records. For INFO, whose callback has no context. */
struct unconfirmedSummary unconfirmedLook(void);

#endif
