/* The bindings of holds to connections. They are in two lists. One contains the bindings whose
 * connection is open, in the order in which they are to be renewed. The other contains the bindings
 * whose connection has closed, in the order in which their holds are to be released. A connection
 * that has just closed may have very many bindings, so bindingsMoveClosed moves them from the first
 * list to the second in parts. Holds are renewed and released in sessions.c. The times depend on
 * the current values of lock.default-lease and lock.session-grace.
 *
 * While there is no binding this file uses no memory.
 */
#ifndef LOCK_BINDINGS_H
#define LOCK_BINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/list.h"
#include "keys/holds.h"
#include "redismodule.h"
#include "waits/request.h"

/* A connection to which holds are bound. It exists until all of them are released, also after it
 * has closed. */
struct connection;

struct binding {
    struct mapEntry by_hold; /* database, lock, owner */
    struct link in_line;     /* in one of the two lists */
    RedisModuleString *name, *owner;
    struct connection *connection; /* NULL if it has closed and the binding is in the second list */
    struct link of_connection;     /* in the list of all bindings of the connection */
    uint64_t order;                /* the order of the request (see bindingsBind) */
    int db;                        /* the number that stays with the data (swappeddbs.h) */
    /* While the connection is open, the time at which the lease was renewed, and the latest time at
     * which it is to be renewed again, in unix ms. After that, the time at which the connection
     * closed, and the earliest time at which the holds are released, in monotonic µs. */
    int64_t since, limit;
    char *hold_key;
};

/* The binding of these holds, or NULL. */
struct binding *bindingsFind(const struct holdId *id);

/* Binds the holds to this connection instead of any other. If both connections are open, the holds
 * stay bound to the one with the later request (`order`). To be called when the lease has just been
 * renewed. */
void bindingsBind(const struct holdId *id, const struct requestSession *session, int64_t now_ms);

/* Remove and free this binding, or all bindings. */
void bindingsForget(struct binding *binding);
void bindingsForgetAll(void);

/* To be called when the connection has closed. The holds that are bound to it are to be released
 * when lock.session-grace has passed. Returns whether there are any. O(1), because
 * bindingsMoveClosed does the rest. */
bool bindingsClientGone(unsigned long long client_id, int64_t now_us);

/* Moves some bindings whose connection has closed to the second list, in the order in which the
 * connections closed. Returns whether there were any. Until all of them are moved,
 * bindingsNextRelease is 0. */
bool bindingsMoveClosed(void);

/* The id of the connection of the binding; 0 if the connection has closed. */
unsigned long long bindingsClientOf(const struct binding *binding);

/* The number of the database in which the hold is now. */
int bindingsDb(const struct binding *binding);

/* To be called when SWAPDB has exchanged two databases, with the holds in them. */
void bindingsSwapped(int first_db, int second_db);

/* The first binding in each list if it is due, or NULL. The connection of the first binding to be
 * renewed may have closed (see bindingsIsClosed). */
struct binding *bindingsToRenew(int64_t now_ms);
struct binding *bindingsToRelease(int64_t now_us);

/* Whether the connection of the binding has closed, whichever list the binding is in. */
bool bindingsIsClosed(const struct binding *binding);

/* When the first binding in each list is due, in unix ms and in monotonic µs. INT64_MAX if the list
 * is empty. */
int64_t bindingsNextRenewal(void);
int64_t bindingsNextRelease(void);

/* The time between two renewals in ms: a third of lock.default-lease, at least 1. */
int64_t bindingsRenewEvery(void);

/* To be called when the lease has been renewed. Moves the binding to the end of its list. */
void bindingsRenewed(struct binding *binding, int64_t now_ms);

/* To be called when the holds cannot be released now. Makes the binding due again later. */
void bindingsPutOff(struct binding *binding, int64_t now_us);

/* How many bindings there are. */
size_t bindingsCount(void);

/* bindingsWalkBegin begins an iteration over both lists, in which the caller checks whether the
 * holds of all bindings still exist. bindingsWalks returns whether an iteration is in progress. */
void bindingsWalkBegin(void);
bool bindingsWalks(void);

/* The next binding of the iteration, or NULL if there are no more. */
struct binding *bindingsWalkOn(void);

#endif
