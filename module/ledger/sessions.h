/* Sessions: holds that last as long as a connection.
 *
 * A *binding* records that an owner's holds on a lock are bound to a connection. As long as the
 * connection is open, a timer of this file renews their lease three times in the duration of the
 * lease, which is lock.default-lease. When the connection has closed, the owner may bind the holds
 * to another connection within lock.session-grace. After that time they are released. The holds
 * themselves are in the key, like all others. If they have been removed in another way, nothing is
 * left to renew, and the binding is removed too.
 */
#ifndef LOCK_SESSIONS_H
#define LOCK_SESSIONS_H

#include <stddef.h>
#include <stdint.h>

#include "keys/holds.h"
#include "ledger/bindings.h"
#include "redismodule.h"

/* Sets the function that releases all holds of an owner, in the selected database, and hands the
 * lock off. To be called once, at load. */
typedef void (*sessionsRelease)(RedisModuleCtx *ctx, RedisModuleString *name,
                                RedisModuleString *owner, int64_t now_ms);
void sessionsConnect(sessionsRelease release);

/* The connection of the running command, and the order of its request. `client_id` is 0 for a
 * client without a connection. */
struct requestSession sessionsAsked(RedisModuleCtx *ctx);

/* Binds the holds to this connection instead of any other. If both connections are open, the holds
 * stay bound to the one that sent the later request, whichever received its reply last. */
void sessionsBind(RedisModuleCtx *ctx, const struct holdId *id,
                  const struct requestSession *session, int64_t now_ms);

/* Removes the binding of the holds, which now end when their leases expire. Does nothing if they
 * are not bound. */
void sessionsUnbind(const struct holdId *id);

/* The id of the connection to which the holds are bound; 0 if none. */
unsigned long long sessionsClientOf(const struct holdId *id);

/* To be called when the connection has closed. The grace period of all holds that are bound to it
 * begins. Allowed in every callback. */
void sessionsClientGone(RedisModuleCtx *ctx, unsigned long long client_id);

/* Removes all bindings. For a replica, because only the master renews and releases holds. */
void sessionsForgetAll(void);

/* To be called after a flush or a load, when many keys have been removed or added without an event
 * for each. The bindings whose holds no longer exist are removed soon. Allowed in every callback.
 */
void sessionsLookAgain(RedisModuleCtx *ctx);

/* To be called when lock.default-lease or lock.session-grace has been changed. The new value
 * applies at once to all bindings, as if it had been set from the beginning. */
void sessionsConfigured(RedisModuleCtx *ctx);

/* To be called when SWAPDB has exchanged two databases. The holds and their bindings are in the
 * other database now. */
void sessionsSwapped(int first_db, int second_db);

/* How many bindings there are. */
size_t sessionsCount(void);

#endif
