/* Grants that the client has not been told of yet: from the hand-off until the server has written
 * the answer, a moment later. If the client dies in between its hold is *lost*, and the drain gives
 * it back (rule 5).
 *
 * Only that hold: when it has gone some other way, by LOCK.FORCE say, and its owner has taken the
 * lock anew, then what the owner holds is not the lost one.
 */
#ifndef LOCK_INFLIGHT_H
#define LOCK_INFLIGHT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/hashmap.h"
#include "core/list.h"
#include "core/rules.h"
#include "redismodule.h"

struct inflight {
    struct mapEntry by_owner;
    struct link in_lost;
    bool is_lost; /* the client is known to be dead */
    int db;
    enum lockMode mode;
    int64_t permits; /* of a semaphore: how many were granted */
    RedisModuleString *owner;
    size_t name_count;
    RedisModuleString *names[]; /* of the locks; NULL where the hold has gone some other way */
};

/* A new record, with room for so many names, which the caller sets; each is to be a reference of
 * the record's own. Keeps a reference to the owner. It belongs to this file until it is told or
 * freed. */
struct inflight *inflightNew(RedisModuleString *owner, size_t name_count);

/* How the answer went; `data` is the record (see answersSendNumber). */
void inflightEnd(RedisModuleCtx *ctx, bool delivered, void *data);

/* The owner has taken this lock anew, without having held it. */
void inflightForget(int db, RedisModuleString *name, RedisModuleString *owner);

/* How many grants have no answer yet, or are lost. */
size_t inflightCount(void);

/* SWAPDB has taken the holds to the other database. */
void inflightSwapped(int first_db, int second_db);

/* The first lost grant, or NULL. It stays until it is freed. */
struct inflight *inflightFirstLost(void);

/* Takes the name number `index` off the record, which is done with it: the hold is about to be given
 * back. The name is the caller's to free. */
RedisModuleString *inflightTakeName(struct inflight *inflight, size_t index);

void inflightFree(struct inflight *inflight);

#endif
