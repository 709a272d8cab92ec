/* Pending replies: grants whose reply the server has not written yet. That lasts from the hand-off
 * until the reply is written, a moment later (rule 5 of docs/design.md).
 *
 * A *pending reply* (struct pendingreply) reports *holds in flight* (struct pendingreplyHold), one
 * for each lock: exactly what its grant has added there. With ONCE a grant may add nothing, or less
 * than the reply reports, because its owner already has the rest. If that rest is in flight too,
 * the reply *depends on* it. A hold whose replies have all failed, because their clients died, is
 * *lost*, and the drain releases it. A hold that any delivered reply has reported stays, or as much
 * of it as that reply reported.
 *
 * If a hold was removed in another way, by LOCK.FORCE for example, and its owner has acquired the
 * lock again since, then the owner's present hold is not the lost one.
 */
#ifndef LOCK_PENDINGREPLY_H
#define LOCK_PENDINGREPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/list.h"
#include "core/rules.h"
#include "redismodule.h"
#include "waits/request.h"

/* The holds of one owner on one lock in one mode. */
struct pendingreplyOwner {
    int db;
    RedisModuleString *name, *owner; /* owned by the caller */
    enum lockMode mode;
};

/* What a grant has changed on one lock. */
struct pendingreplyTaken {
    struct pendingreplyOwner of;
    int64_t added;      /* how many holds, or permits, the grant has added */
    int64_t has;        /* how many the owner has now, in this mode */
    bool owner_is_kept; /* `of.owner` is the module's own string: it may be retained */
    int64_t needs;      /* ONCE: how many the reply reports, whoever added them; else 0 */
};

/* A hold in flight. `count` is 0 if the owner had all of it already, and for a hold that a renewal
 * reports. */
struct pendingreplyHold {
    struct mapEntry by_hold; /* lock and owner */
    struct link in_lost;
    bool is_lost;  /* every client that waited for a reply about it has died */
    bool is_first; /* the owner had none in this mode before */
    bool is_gone;  /* it was removed in another way before any reply was delivered */
    int db;
    enum lockMode mode;
    RedisModuleString *name, *owner;
    int64_t count;      /* added by the grant */
    int64_t retained;   /* how many of them a delivered reply has reported */
    struct list shares; /* one for each pending reply that reports it or depends on it */
    char *hold_key;
};

struct pendingreply;
struct ack; /* of acks.c: a client whose reply waits for replicas */

/* Returns a new pending reply, which reports nothing yet. `session`: the connection that its holds
 * are bound to when the reply is delivered, or none. `granted_ms`: when they were granted, unix
 * time, or PENDINGREPLY_RENEWAL. It is freed by pendingreplyDrop, or by pendingreplyEnd once it has
 * been handed to blocked.c or acks.c. */
#define PENDINGREPLY_RENEWAL 0
struct pendingreply *pendingreplyNew(const struct requestSession *session, int64_t granted_ms);

/* Adds what was granted on one lock to what the reply reports. */
void pendingreplyAdd(struct pendingreply *pendingreply, const struct pendingreplyTaken *taken);

/* The reply waits for replicas as `ack`; NULL: it no longer waits. */
void pendingreplyAwaits(struct pendingreply *pendingreply, struct ack *ack);

/* Calls `visit` for the `ack` of each waiting reply that reports holds of this owner on this lock,
 * or depends on them; for some more than once. `visit` must not end a reply. */
void pendingreplyEachAwaiting(int db, RedisModuleString *name, RedisModuleString *owner,
                              void (*visit)(struct ack *ack, void *data), void *data);

/* Whether all holds that the reply's grant has made still exist, as far as the keys show: false if
 * a lease has expired meanwhile, or another client has removed a hold. Selects databases. */
bool pendingreplyIsValid(RedisModuleCtx *ctx, const struct pendingreply *pendingreply);

/* Frees a reply that will not be sent, because nothing was granted. It must report nothing. */
void pendingreplyDrop(struct pendingreply *pendingreply);

/* Ends a pending reply and frees it. `delivered`: the server has written it; otherwise its client
 * has died. `data` is the struct pendingreply: this is the callback of struct blockedReceipt
 * (blocked.h). */
void pendingreplyEnd(RedisModuleCtx *ctx, bool delivered, void *data);

/* A command replies at once and reports this. The holds in flight that its reply depends on
 * stay. */
void pendingreplyConfirmed(const struct pendingreplyTaken *taken);

/* The owner has acquired this lock without holding it before: what was in flight for it has been
 * removed in another way. */
void pendingreplyForget(int db, RedisModuleString *name, RedisModuleString *owner);

/* The owner has `count` holds in this mode, or had before it acquired more. Holds in flight above
 * that number have been removed in another way. */
void pendingreplyHas(const struct pendingreplyOwner *of, int64_t count);

/* The owner has released `count` holds in this mode. It may have given up waiting and mean those in
 * flight: so these are taken first, because nothing may be taken from a client that has received a
 * reply. */
void pendingreplyReleased(const struct pendingreplyOwner *of, int64_t count);

/* How many holds are in flight or lost. */
size_t pendingreplyCount(void);

/* SWAPDB has moved the holds to the other database. */
void pendingreplySwapped(int first_db, int second_db);

/* The first lost hold, or NULL. `count` - `retained` of it are to be released. It stays in the list
 * until pendingreplyFreeLost. */
struct pendingreplyHold *pendingreplyFirstLost(void);

void pendingreplyFreeLost(struct pendingreplyHold *hold);

/* The hold cannot be released yet: moves it behind all other lost ones. */
void pendingreplyPutLast(struct pendingreplyHold *lost);

#endif
