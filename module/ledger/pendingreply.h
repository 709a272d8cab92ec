/* Pending replies: grants whose reply the server has not written yet. A reply is pending from the
 * hand-off until it is written, a moment later (rule 5 of docs/design.md).
 *
 * A *pending reply* (struct pendingreply) reports *holds in flight* (struct pendingreplyHold).
 * There is one for each lock, which contains exactly the holds that the grant has added to that
 * lock. With ONCE a grant may add nothing, or less than the reply reports, because its owner
 * already has the rest. If the rest is in flight too, the reply *depends on* it. If all replies
 * that report a hold have failed, because the connections of their clients have closed, the hold is
 * *lost*, and the drain releases it. If a reply has been delivered, the part of the hold that it
 * has reported is not released.
 *
 * If a hold was removed in another way, by LOCK.FORCE for example, and its owner has acquired the
 * lock again since, the present hold of the owner is a different one and is not lost.
 */
#ifndef LOCK_PENDINGREPLY_H
#define LOCK_PENDINGREPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/list.h"
#include "core/rules.h"
#include "keys/holds.h"
#include "redismodule.h"
#include "waits/request.h"

/* What a grant has changed for one lock. */
struct pendingreplyTaken {
    struct holdId id;
    enum lockMode mode;
    int64_t added;      /* how many holds, or permits, the grant has added */
    int64_t has;        /* how many holds or permits the owner has now, in this mode */
    bool owner_is_kept; /* `id.owner` is the module's own string, so it may be retained */
    int64_t needs;      /* for ONCE, how many the reply reports, whoever added them; otherwise 0 */
};

/* A hold in flight. `count` is 0 if the owner already had everything that the reply reports, and
 * for a hold that a renewal reports. */
struct pendingreplyHold {
    struct mapEntry by_hold; /* lock and owner */
    struct link in_lost;
    bool is_lost;  /* all replies that report it have failed */
    bool is_first; /* the owner had no hold in this mode before */
    bool is_gone;  /* removed in another way before any reply was delivered */
    int db;        /* the number that stays with the data: see pendingreplyDb */
    enum lockMode mode;
    RedisModuleString *name, *owner;
    int64_t count;      /* how many holds or permits the grant has added */
    int64_t retained;   /* how many of these a delivered reply has reported */
    struct list shares; /* one for each pending reply that reports it or depends on it */
    char *hold_key;
};

/* How many of its holds are unreported. */
static inline int64_t pendingreplyUnreported(const struct pendingreplyHold *hold) {
    return hold->count - hold->retained;
}

/* The database in which the hold is now. */
int pendingreplyDb(const struct pendingreplyHold *hold);

struct pendingreply;
struct ack; /* a client whose reply waits for replicas (acks.c) */

/* Returns a new pending reply, which reports nothing yet. `session` is the connection to which its
 * holds are bound when the reply is delivered, or none. `granted_ms` is the unix time at which the
 * holds were granted, or PENDINGREPLY_RENEWAL. The pending reply is freed by pendingreplyDrop, or
 * by pendingreplyEnd after it has been passed to blocked.c or acks.c. */
#define PENDINGREPLY_RENEWAL 0
struct pendingreply *pendingreplyNew(const struct requestSession *session, int64_t granted_ms);

/* Adds what was granted on one lock to what the reply reports. */
void pendingreplyAdd(struct pendingreply *pendingreply, const struct pendingreplyTaken *taken);

/* Records that the reply waits for replicas as `ack`, or no longer waits if `ack` is NULL. */
void pendingreplyAwaits(struct pendingreply *pendingreply, struct ack *ack);

/* Calls `visit` for the `ack` of each reply that waits for replicas and that reports holds of this
 * owner on this lock, or depends on them. May call it more than once for the same `ack`. `visit`
 * must not end a reply. */
void pendingreplyEachAwaiting(const struct holdId *id, void (*visit)(struct ack *ack, void *data),
                              void *data);

/* Whether the keys still contain all holds that the grant of this reply has added. False if a lease
 * has expired meanwhile, or another client has removed a hold. Selects databases. */
bool pendingreplyIsValid(RedisModuleCtx *ctx, const struct pendingreply *pendingreply);

/* Frees a pending reply that will not be sent, because nothing was granted. It must not report any
 * hold. */
void pendingreplyDrop(struct pendingreply *pendingreply);

/* Ends a pending reply and frees it. `delivered` is whether the server has written the reply; if
 * not, the connection of the client has closed. This is the callback of struct blockedReceipt
 * (blocked.h), and `data` is the struct pendingreply. */
void pendingreplyEnd(RedisModuleCtx *ctx, bool delivered, void *data);

/* To be called when a command replies at once and reports these holds. The holds in flight on which
 * its reply depends are not released. */
void pendingreplyConfirmed(const struct pendingreplyTaken *taken);

/* To be called when the owner has acquired this lock and did not hold it before. Holds of this
 * owner that were in flight have been removed in another way. */
void pendingreplyForget(const struct holdId *id);

/* To be called with the number of holds that the owner has in this mode, or had before it acquired
 * more. If more holds than `count` are in flight, the others have been removed in another way. */
void pendingreplyHas(const struct holdId *id, enum lockMode mode, int64_t count);

/* To be called when the owner has released `count` holds in this mode. Holds in flight count as
 * released first, because the owner may have given up waiting, and because holds must not be taken
 * from a client that has received a reply. */
void pendingreplyReleased(const struct holdId *id, enum lockMode mode, int64_t count);

/* How many holds are in flight or lost. */
size_t pendingreplyCount(void);

/* To be called when SWAPDB has moved the holds to the other database. */
void pendingreplySwapped(int first_db, int second_db);

/* The first lost hold, or NULL. The caller must release `count` - `retained` of it. The hold stays
 * in the list until pendingreplyFreeHold. */
struct pendingreplyHold *pendingreplyFirstLost(void);

void pendingreplyFreeHold(struct pendingreplyHold *hold);

/* Moves the hold to the end of the list, because it cannot be released yet. */
void pendingreplyPutLast(struct pendingreplyHold *lost);

#endif
