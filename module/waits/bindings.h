/* The bindings of holds to connections, and the two lines in which they stand: those whose
 * connection lives, in the order in which they are to be renewed, and those whose connection has
 * closed, in the order in which they are to be released. One that has just closed may have very many:
 * bindingsMoveClosed takes them from one line to the other, some at a time. What is done when their time has come is
 * sessions.c's. The times follow lock.default-lease and lock.session-grace as they are now.
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
#include "waits/acquisition.h"

/* An owner's holds on a lock. */
struct sessionsHold {
    int db;
    RedisModuleString *name, *owner; /* the caller's */
};

/* A connection to which something is bound, also after it has closed. */
struct connection;

struct binding {
    struct mapEntry by_hold; /* database, lock, owner */
    struct link in_line;     /* of those that live, or of those whose connection has closed */
    RedisModuleString *name, *owner;
    struct connection *connection; /* NULL: it has closed, and the binding is in that line */
    struct link of_connection;     /* all that are bound to it */
    uint64_t order;                /* when it asked: see bindingsBind */
    int db;                        /* the number that stays with its data: see bindingsDb */
    /* While the connection lives, unix ms, as the lease is: when it was renewed, and when it is to be
     * renewed at the latest. Of a closed one, monotonic µs: when its connection closed, and before
     * when it is not to be released. */
    int64_t since, limit;
    char *hold_key;
};

/* The binding of these holds, or NULL. */
struct binding *bindingsFind(const struct sessionsHold *hold);

/* Binds the holds to this connection, and to no other any more; but of two that live to the one
 * that has asked last. They have been renewed just now. */
void bindingsBind(const struct sessionsHold *hold, const struct acquisitionSession *session,
                  int64_t now_ms);

/* Takes it out of everything, and frees it. */
void bindingsForget(struct binding *binding);
void bindingsForgetAll(void);

/* The connection has closed: what is bound to it is to be released when lock.session-grace has
 * passed. Returns whether anything was. O(1): bindingsMoveClosed does the rest. */
bool bindingsClientGone(unsigned long long client_id, int64_t now_us);

/* Puts some bindings whose connection has closed into the line of these, those that closed first
 * before all others. Returns whether there was any: then bindingsNextRelease says that it is time. */
bool bindingsMoveClosed(void);

/* The connection to which it is bound; 0: that has closed. */
unsigned long long bindingsClientOf(const struct binding *binding);

/* In which database the hold is now. */
int bindingsDb(const struct binding *binding);

/* Two databases have changed places, and the holds in them. */
void bindingsSwapped(int first_db, int second_db);

/* The first in its line, if it is due; or NULL. The first that is to be renewed may be one whose
 * connection has closed: bindingsIsClosed. */
struct binding *bindingsToRenew(int64_t now_ms);
struct binding *bindingsToRelease(int64_t now_us);

/* Whether its connection has closed, in whichever line it is. */
bool bindingsIsClosed(const struct binding *binding);

/* When the first in the line is due, unix ms; monotonic µs. INT64_MAX = there is none. */
int64_t bindingsNextRenewal(void);
int64_t bindingsNextRelease(void);

/* The time from one renewal to the next: a third of lock.default-lease. */
int64_t bindingsRenewEvery(void);

/* It has been renewed: goes to the end of the line. */
void bindingsRenewed(struct binding *binding, int64_t now_ms);

/* It cannot be released now: is due again after a while. */
void bindingsPutOff(struct binding *binding, int64_t now_us);

/* How many there are. */
size_t bindingsCount(void);

/* All are to be looked at, whether their holds are there: a walk through both lines, from the
 * beginning. */
void bindingsWalkBegin(void);
bool bindingsWalks(void);

/* The next one in the walk; NULL: that was all. */
struct binding *bindingsWalkOn(void);

#endif
