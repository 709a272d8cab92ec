/* Unconfirmed grants: holds that were granted after a wait and have not been confirmed since. A
 * grant is confirmed when the connection that received it has sent another command, or when any
 * client has sent a command for its owner. If a client library has stopped reading and has kept its
 * connection open, no client knows about the hold, and it lasts until its lease expires. This is an
 * *orphaned grant*.
 *
 * Whether a connection has sent another command is determined by LOCK.INFO and INFO only, by a
 * query to the server. The module itself records at once a request for a lock by that connection,
 * because the server reports only the name of the last command of a connection; and any command for
 * the owner.
 *
 * Only the latest UNCONFIRMED_MOST grants are recorded, in static memory. Their names and owners
 * are strings of the server. If both together are longer than UNCONFIRMED_LONGEST bytes, the grant
 * is not recorded, so all strings use at most 1 MiB. The record of a grant is removed when its hold
 * ends. When another client or the server has changed the key, the drain checks whether the hold
 * still exists. If a hold ends without an event, such as the lease of one reader among others, its
 * record is removed by the next LOCK.INFO or INFO that checks it.
 */
#ifndef LOCK_UNCONFIRMED_H
#define LOCK_UNCONFIRMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/features.h"
#include "keys/holds.h"
#include "ledger/unconfirmedrecords.h"
#include "redismodule.h"

/* To be called when a client has sent a command for the owner of these holds, in the selected
 * database, or when the holds have ended. */
void unconfirmedEndHold(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner);
static inline void unconfirmedEnd(RedisModuleCtx *ctx, RedisModuleString *name,
                                  RedisModuleString *owner) {
    if (featuresHas(FEATURE_UNCONFIRMED)) {
        unconfirmedEndHold(ctx, name, owner);
    }
}

/* To be called when the connection of the running command requests a lock. */
void unconfirmedRequested(RedisModuleCtx *ctx);

/* To be called when all holds on this lock in the selected database have ended. */
void unconfirmedForced(RedisModuleCtx *ctx, RedisModuleString *name);

/* To be called when all holds in this database, or with UNCONFIRMED_EVERY_DB in all databases, have
 * ended. */
#define UNCONFIRMED_EVERY_DB (-1)
void unconfirmedFlushed(int db);

/* To be called when another client or the server has changed or removed this key. Only marks the
 * records for the drain, so it is allowed in every callback. */
void unconfirmedNoteKey(RedisModuleCtx *ctx, int db, RedisModuleString *name);
static inline void unconfirmedKeyChanged(RedisModuleCtx *ctx, int db, RedisModuleString *name) {
    if (featuresHas(FEATURE_UNCONFIRMED)) {
        unconfirmedNoteKey(ctx, db, name);
    }
}

/* The drain's job. Removes the records whose key has changed and whose hold no longer exists. */
void unconfirmedLookAtDue(RedisModuleCtx *ctx, int64_t now_ms);

/* How many ms before `now_ms` the first unconfirmed grant of these holds was made; -1 if they are
 * confirmed, or were not granted after a wait. */
int64_t unconfirmedFor(RedisModuleCtx *ctx, const struct holdId *id, int64_t now_ms);

struct unconfirmedSummary {
    size_t grants;
    int64_t oldest_ms; /* the age of the oldest one; 0 if there is none */
};

/* Checks all records. For INFO, whose callback has no context. */
struct unconfirmedSummary unconfirmedLook(void);

#endif
