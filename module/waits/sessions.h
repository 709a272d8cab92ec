/* Holds that are bound to a connection: LOCK.… SESSION.
 *
 * A *binding* says that the holds of one owner on one lock live as long as one connection. While it
 * lives, the leases are renewed here; when it closes, a grace begins, after which the holds are
 * released. The holds themselves are in the key, as all are: a binding whose holds have gone
 * otherwise finds nothing to renew, and is forgotten.
 *
 * This file keeps the bindings and tells which of them are due; sessionwork.c does what has to be
 * done. While there is no binding it has no memory.
 */
#ifndef LOCK_SESSIONS_H
#define LOCK_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/list.h"
#include "redismodule.h"

struct binding {
    struct mapEntry by_hold;   /* database, lock, owner */
    struct mapEntry by_client; /* the connection's id */
    struct link in_line;       /* of those that live, or of those whose connection has closed */
    RedisModuleString *name, *owner;
    unsigned long long client_id; /* 0: the connection has closed */
    int db;
    int64_t due_ms; /* when to renew; of a closed one, when to release */
    char *hold_key;
};

/* Says, once at load, what is called when a binding is due, from a timer. */
void sessionsConnect(void (*work)(RedisModuleCtx *ctx));

/* Sees to it that the work is done at `at_ms`, or earlier; INT64_MAX = never. */
void sessionsWakeAt(RedisModuleCtx *ctx, int64_t at_ms, int64_t now_ms);

/* Binds the owner's holds of the lock `name` in the selected database to the connection
 * `client_id`, and to no other any more. */
void sessionsBind(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                  unsigned long long client_id, int64_t now_ms);

/* The owner's holds live by their leases from now on. Does nothing when they are not bound. */
void sessionsUnbind(int db, RedisModuleString *name, RedisModuleString *owner);

/* The connection that the owner's holds are bound to; 0 = none. */
unsigned long long sessionsClientOf(int db, RedisModuleString *name, RedisModuleString *owner);

/* The connection has closed: the grace of all that is bound to it begins. Allowed in every
 * callback. */
void sessionsClientGone(RedisModuleCtx *ctx, unsigned long long client_id, int64_t now_ms);

/* The next binding to renew, or to release, by now; NULL when there is none. It stays what and
 * where it is: see sessionsRenewed and sessionsForget. */
struct binding *sessionsNextToRenew(int64_t now_ms);
struct binding *sessionsNextToRelease(int64_t now_ms);

/* The binding has been renewed: it goes to the end of the line. */
void sessionsRenewed(struct binding *binding, int64_t now_ms);

/* The binding, of a closed connection, cannot be worked on now: it goes to the end of its line. */
void sessionsPutOff(struct binding *binding, int64_t now_ms);

void sessionsForget(struct binding *binding);

/* Forgets them all: on a replica the holds are the master's. */
void sessionsForgetAll(void);

/* When the next binding is due; INT64_MAX = never. */
int64_t sessionsNextDue(void);

/* Two databases have changed positions: the holds are in the other one now, and so are the bindings. */
void sessionsSwapped(int first_db, int second_db);

/* How many there are. */
size_t sessionsCount(void);

/* How often a lease is renewed: three times in its life. */
int64_t sessionsRenewEvery(void);

#endif
