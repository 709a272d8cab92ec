/* What happens to holds is reported here, to one function for each event. It passes the event on to
 * everything that remembers holds beside the keys: replies on their way, unconfirmed grants,
 * sessions, watches, latches.
 *
 * A new feature that has to know of grants or releases gets its call here, and nowhere else.
 */
#ifndef LOCK_LEDGER_H
#define LOCK_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "keys/holds.h"
#include "ledger/pendingreply.h"
#include "redismodule.h"
#include "waits/request.h"

/* ---- by the module ---- */

/* What a grant has done. */
struct ledgerGrant {
    bool is_first;                     /* the owner had no hold on this lock before, in any mode */
    int64_t added;                     /* how many holds, or permits, were added */
    int64_t has;                       /* how many the owner has now, in this mode */
    int64_t count;                     /* how many the reply reports */
    struct pendingreply *pendingreply; /* the reply, or NULL if the command replies at once */
};

/* The request has been granted. */
void ledgerTaken(struct holds *holds, const struct request *wants, const struct ledgerGrant *grant);

/* What a release has done. */
struct ledgerRelease {
    enum lockMode mode;
    int64_t count; /* how many holds, or permits, were released */
    int64_t left;  /* how many the owner has left, in this mode */
    bool is_lost;  /* the module releases a hold that its client does not know of */
};

/* The owner's holds have been released. */
void ledgerReleased(struct holds *holds, RedisModuleString *owner,
                    const struct ledgerRelease *release);

/* The leases of the owner's holds have been renewed. `pendingreply` is the reply that will report
 * them, or NULL if the command replies at once. */
void ledgerRenewed(struct holds *holds, RedisModuleString *owner,
                   struct pendingreply *pendingreply);

/* A client has sent a command for this owner of this lock, in the selected database. */
void ledgerConfirmed(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner);

/* All holds of this owner have been removed, because its connection has closed. */
void ledgerDropped(struct holds *holds, RedisModuleString *owner);

/* All holds have been removed, by LOCK.FORCE. */
void ledgerForced(struct holds *holds);

/* ---- by the server, and by other clients ---- */

/* A key has been changed, or removed. Allowed in every callback. `notes` are for the clients that
 * wait for the key (blockingkey.h). */
void ledgerKeyChanged(RedisModuleCtx *ctx, RedisModuleString *name, unsigned notes);

/* This database, or with -1 all, has been flushed. */
void ledgerFlushed(RedisModuleCtx *ctx, int db);

/* SWAPDB has exchanged two databases: the holds have moved. */
void ledgerSwapped(RedisModuleCtx *ctx, int first_db, int second_db);

/* A data set has been loaded: the holds are those of the file. */
void ledgerLoaded(RedisModuleCtx *ctx);

/* The server has become a replica: the holds are the master's. */
void ledgerBecameReplica(RedisModuleCtx *ctx);

#endif
