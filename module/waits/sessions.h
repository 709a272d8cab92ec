/* Sessions: holds that live as long as a connection.
 *
 * A *binding* is the note that an owner's holds on a lock are bound to a connection. As long as it
 * lives a timer of this file renews their lease, lock.default-lease, three times in its life; when
 * it has closed they have lock.session-grace, in which the owner may bind them to another
 * connection, and after which the holds are released. The holds themselves are in the key, as all
 * are: a binding whose holds have gone otherwise finds nothing to renew, and is forgotten.
 */
#ifndef LOCK_SESSIONS_H
#define LOCK_SESSIONS_H

#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"
#include "waits/bindings.h"

/* Says, once at load, what releases all holds of an owner and hands the lock off; it works in the
 * selected database. */
typedef void (*sessionsRelease)(RedisModuleCtx *ctx, RedisModuleString *name,
                                RedisModuleString *owner, int64_t now_ms);
void sessionsConnect(sessionsRelease release);

/* The client's connection, and that it asks now; none for a client that has no connection. */
struct acquisitionSession sessionsAsked(RedisModuleCtx *ctx);

/* Binds the holds to this connection, and to no other any more; but of two that live to the one
 * that has asked last, whichever was answered last. */
void sessionsBind(RedisModuleCtx *ctx, const struct sessionsHold *hold,
                  const struct acquisitionSession *session, int64_t now_ms);

/* The holds live by their leases from now on. Does nothing when they are not bound. */
void sessionsUnbind(const struct sessionsHold *hold);

/* The connection that the holds are bound to; 0 = none. */
unsigned long long sessionsClientOf(const struct sessionsHold *hold);

/* The connection has closed: the grace of all that is bound to it begins. Allowed in every
 * callback. */
void sessionsClientGone(RedisModuleCtx *ctx, unsigned long long client_id);

/* Forgets them all: on a replica the holds are the master's. */
void sessionsForgetAll(void);

/* Many keys have gone, or come, without an event for each: a flush, a load. The bindings whose holds
 * are not there any more are forgotten soon. Allowed in every callback. */
void sessionsLookAnew(RedisModuleCtx *ctx);

/* lock.default-lease or lock.session-grace has been changed: it goes for those that are bound, or in
 * their grace, as if it had been so from the beginning. */
void sessionsConfigured(RedisModuleCtx *ctx);

/* Two databases have changed places: the holds are in the other one now, and so are the
 * bindings. */
void sessionsSwapped(int first_db, int second_db);

/* How many bindings there are. */
size_t sessionsCount(void);

#endif
