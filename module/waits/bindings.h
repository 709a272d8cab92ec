/* The bindings of holds to connections, and the two lists in which they are: those whose connection
 * is open, in the order in which they are to be renewed, and those whose connection has closed, in
 * the order in which they are to be released. A connection that has just closed may have very many
 * bindings: bindingsMoveClosed moves them from one list to the other, some at a time. Renewing and
 * releasing is done in sessions.c. The times follow the current values of lock.default-lease and
 * lock.session-grace.
 *
 * While there is no binding this file has no memory.
 */
#ifndef LOCK_BINDINGS_H
#define LOCK_BINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/list.h"
#include "redismodule.h"
#include "waits/request.h"

/* An owner's holds on a lock. */
struct sessionsHold {
    int db;
    RedisModuleString *name, *owner; /* owned by the caller */
};

/* A connection to which holds are bound, also after it has closed. */
struct connection;

struct binding {
    struct mapEntry by_hold; /* database, lock, owner */
    struct link in_line;     /* of those with an open connection, or of the closed */
    RedisModuleString *name, *owner;
    struct connection *connection; /* NULL: it has closed, and the binding is in that list */
    struct link of_connection;     /* all bindings of the connection */
    uint64_t order;                /* of the request: see bindingsBind */
    int db;                        /* the number that stays with its data: see bindingsDb */
    /* While the connection is open, unix ms, as for the lease: when the lease was renewed, and the
     * latest time at which it is to be renewed again. After that, monotonic µs: when the connection
     * closed, and the earliest time at which the holds are released. */
    int64_t since, limit;
    char *hold_key;
};

/* The binding of these holds, or NULL. */
struct binding *bindingsFind(const struct sessionsHold *hold);

/* Binds the holds to this connection instead of any other. Of two open connections the one with the
 * later request (`order`) keeps them. The lease has just been renewed. */
void bindingsBind(const struct sessionsHold *hold, const struct requestSession *session,
                  int64_t now_ms);

/* Removes the binding and frees it; removes and frees all. */
void bindingsForget(struct binding *binding);
void bindingsForgetAll(void);

/* The connection has closed: the holds that are bound to it are to be released when
 * lock.session-grace has passed. Returns whether there are any. O(1): bindingsMoveClosed does the
 * rest. */
bool bindingsClientGone(unsigned long long client_id, int64_t now_us);

/* Moves some bindings whose connection has closed to the list of those, in the order in which the
 * connections closed. Returns whether there were any; until all are moved bindingsNextRelease is
 * 0. */
bool bindingsMoveClosed(void);

/* The id of the connection to which it is bound; 0: that has closed. */
unsigned long long bindingsClientOf(const struct binding *binding);

/* The number of the database that has the hold now. */
int bindingsDb(const struct binding *binding);

/* SWAPDB has exchanged two databases, with the holds in them. */
void bindingsSwapped(int first_db, int second_db);

/* The first in each list, if it is due; or NULL. The first to be renewed may be one whose
 * connection has closed: see bindingsIsClosed. */
struct binding *bindingsToRenew(int64_t now_ms);
struct binding *bindingsToRelease(int64_t now_us);

/* Whether its connection has closed, whichever list it is in. */
bool bindingsIsClosed(const struct binding *binding);

/* When the first in each list is due, unix ms and monotonic µs. INT64_MAX: there is none. */
int64_t bindingsNextRenewal(void);
int64_t bindingsNextRelease(void);

/* The time between two renewals in ms: a third of lock.default-lease, at least 1. */
int64_t bindingsRenewEvery(void);

/* Its lease has been renewed: moves it to the end of the list. */
void bindingsRenewed(struct binding *binding, int64_t now_ms);

/* Its holds cannot be released now: it becomes due again after a while. */
void bindingsPutOff(struct binding *binding, int64_t now_us);

/* How many bindings there are. */
size_t bindingsCount(void);

/* Begins an iteration over both lists, to check whether the holds of all bindings still exist;
 * whether one is in progress. */
void bindingsWalkBegin(void);
bool bindingsWalks(void);

/* The next binding of the iteration; NULL: that was all. */
struct binding *bindingsWalkOn(void);

#endif
