/* Grants that the client has not been told of yet: from the hand-off until the server has written
 * the answer, a moment later (rule 5).
 *
 * What is on its way is an *answer* (struct inflight). What it tells of is in *holds* (struct
 * inflightHold), one for each lock: just what this grant has added there. By ONCE a grant may add
 * nothing, or too little, because its owner has the rest already; if that is in flight too, the
 * answer *relies* on it. A hold of which every answer has died is *lost*, and the drain releases
 * it; one of which any client has been told stays, or as much of it as that client was told of.
 *
 * When a hold has gone some other way, by LOCK.FORCE say, and its owner has taken the lock anew,
 * then what the owner holds is not the lost one.
 */
#ifndef LOCK_INFLIGHT_H
#define LOCK_INFLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/list.h"
#include "core/rules.h"
#include "redismodule.h"
#include "waits/acquisition.h"

/* Whose holds, of what kind. */
struct inflightOwner {
    int db;
    RedisModuleString *name, *owner; /* the caller's */
    enum lockMode mode;
};

/* What a grant has done to one lock. */
struct inflightTaken {
    struct inflightOwner of;
    int64_t added;      /* so many holds, or permits */
    int64_t has;        /* so many the owner has now, in this mode */
    bool owner_is_kept; /* and may be shared */
    int64_t needs;      /* by ONCE: of so many it is told, whoever added them; else 0 */
};

/* A hold in flight; of none added, what a renewal tells of. */
struct inflightHold {
    struct mapEntry by_hold; /* lock and owner */
    struct link in_lost;
    bool is_lost;  /* every client that was to be told is known to be dead */
    bool is_first; /* the owner had none in this mode before */
    bool is_gone;  /* what the grant added went some other way, before anybody was told */
    int db;
    enum lockMode mode;
    RedisModuleString *name, *owner;
    int64_t count;      /* added by the grant */
    int64_t kept;       /* of so many of them a client has been told */
    struct list shares; /* one of each answer in flight that tells of it or relies on it */
    char *hold_key;
};

struct inflight;
struct ack; /* of acks.c: a client that is told when replicas have acknowledged */

/* A new answer, of nothing yet; `session`: the connection that its holds are bound to as soon as it
 * is told, or none; `granted_ms`: when they were granted, unix time, or INFLIGHT_RENEWAL. It belongs
 * to this file until it has been told, or to the caller until inflightDrop. */
#define INFLIGHT_RENEWAL 0
struct inflight *inflightNew(const struct acquisitionSession *session, int64_t granted_ms);

/* The answer tells of this, too. */
void inflightAdd(struct inflight *inflight, const struct inflightTaken *taken);

/* The answer waits for replicas: this stands for it, or NULL when it waits no more. */
void inflightAwaits(struct inflight *inflight, struct ack *ack);

/* Calls `visit` for each that stands for an answer which tells of holds of this owner on this lock, or
 * relies on them; for some more than once. `visit` ends no answer. */
void inflightEachAwaiting(int db, RedisModuleString *name, RedisModuleString *owner,
                          void (*visit)(struct ack *ack, void *data), void *data);

/* Whether all holds that the grant has made are there still, as far as the keys tell: not those
 * whose lease has ended meanwhile, nor those that somebody has taken away. Selects databases. */
bool inflightStands(RedisModuleCtx *ctx, const struct inflight *inflight);

/* Nobody is to be told, because nothing was granted. */
void inflightDrop(struct inflight *inflight);

/* How the answer went; `data` is the answer (see blockedAnswerNumber). */
void inflightEnd(RedisModuleCtx *ctx, bool delivered, void *data);

/* A client has been told of this at once, in its command. What it relies on stays. */
void inflightTold(const struct inflightTaken *taken);

/* The owner has taken this lock anew, without having held it. */
void inflightForget(int db, RedisModuleString *name, RedisModuleString *owner);

/* The owner has so many holds in this mode, or had before it took more: what is in flight besides
 * has gone some other way. */
void inflightHas(const struct inflightOwner *of, int64_t count);

/* The owner has released so many holds in this mode. They may be those in flight, if it has given
 * up: so those go first, as nothing may be taken from whoever has been told. */
void inflightReleased(const struct inflightOwner *of, int64_t count);

/* How many holds have no answer yet, or are lost. */
size_t inflightCount(void);

/* SWAPDB has taken the holds to the other database. */
void inflightSwapped(int first_db, int second_db);

/* The first lost hold, or NULL: `count` - `kept` of it are to be released. It stays until it is
 * freed. */
struct inflightHold *inflightFirstLost(void);

void inflightFreeLost(struct inflightHold *hold);

/* It cannot be released yet: all others that are lost come before it. */
void inflightPutLast(struct inflightHold *lost);

#endif
