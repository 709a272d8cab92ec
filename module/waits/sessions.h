/* Sessions: holds that last as long as a connection.
 *
 * A *binding* records that an owner's holds on a lock are bound to a connection. As long as the
 * connection is open, a timer of this file renews their lease, which is lock.default-lease, three
 * times in its duration. When the connection has closed, lock.session-grace begins: in it the owner
 * may bind the holds to another connection, and after it they are released. The holds themselves
 * are in the key, like all others: if they have been removed in another way, the binding finds
 * nothing to renew and is removed too.
 */
#ifndef LOCK_SESSIONS_H
#define LOCK_SESSIONS_H

#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"
#include "waits/bindings.h"

/* To be called once, at load: the function that releases all holds of an owner, in the selected
 * database, and hands the lock off. */
typedef void (*sessionsRelease)(RedisModuleCtx *ctx, RedisModuleString *name,
                                RedisModuleString *owner, int64_t now_ms);
void sessionsConnect(sessionsRelease release);

/* The connection of the running command and the number of its request; `client_id` is 0 for a
 * client without a connection. */
struct requestSession sessionsAsked(RedisModuleCtx *ctx);

/* Binds the holds to this connection instead of any other. Of two open connections the one that
 * sent the later request keeps them, whichever received its reply last. */
void sessionsBind(RedisModuleCtx *ctx, const struct sessionsHold *hold,
                  const struct requestSession *session, int64_t now_ms);

/* The holds last as long as their leases from now on. Does nothing when they are not bound. */
void sessionsUnbind(const struct sessionsHold *hold);

/* The id of the connection that the holds are bound to; 0: none. */
unsigned long long sessionsClientOf(const struct sessionsHold *hold);

/* The connection has closed: the grace of all holds that are bound to it begins. Allowed in every
 * callback. */
void sessionsClientGone(RedisModuleCtx *ctx, unsigned long long client_id);

/* Removes all bindings: on a replica the holds are the master's. */
void sessionsForgetAll(void);

/* Many keys have been removed or added without an event for each: a flush, a load. The bindings
 * whose holds no longer exist are removed soon. Allowed in every callback. */
void sessionsLookAgain(RedisModuleCtx *ctx);

/* lock.default-lease or lock.session-grace has been changed: the new value applies at once to all
 * bindings, as if it had been set from the beginning. */
void sessionsConfigured(RedisModuleCtx *ctx);

/* SWAPDB has exchanged two databases: the holds are in the other one now, and their bindings with
 * them. */
void sessionsSwapped(int first_db, int second_db);

/* How many bindings there are. */
size_t sessionsCount(void);

#endif
