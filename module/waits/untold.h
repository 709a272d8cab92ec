/* Grants that the client has not been told of yet: from the hand-off until the server has written
 * the answer, a moment later. If the client dies in between its hold is *lost*, and the drain gives
 * it back (rule 5).
 *
 * Only that hold: when it has gone some other way, by LOCK.FORCE say, and its owner has taken the
 * lock anew, then what the owner holds is not the lost one.
 */
#ifndef LOCK_UNTOLD_H
#define LOCK_UNTOLD_H

#include <stdbool.h>
#include <stddef.h>

#include "core/hashmap.h"
#include "core/list.h"
#include "redismodule.h"
#include "core/rules.h"

struct untold {
    struct mapEntry by_owner;
    struct link in_lost;
    bool is_lost; /* the client is known to be dead */
    int db;
    enum lockMode mode;
    RedisModuleString *owner;
    size_t name_count;
    RedisModuleString *names[]; /* of the locks; NULL where the hold has gone some other way */
};

/* A new record, with room for so many names, which the caller sets; each is to be a reference of
 * the record's own. Keeps a reference to the owner. It belongs to this file until it is told or
 * freed. */
struct untold *untoldNew(RedisModuleString *owner, size_t name_count);

/* How the answer went; `data` is the record (see answersSendNumber). */
void untoldEnd(RedisModuleCtx *ctx, bool delivered, void *data);

/* The owner has taken this lock anew, without having held it. */
void untoldForget(int db, RedisModuleString *name, RedisModuleString *owner);

/* How many grants have no answer yet, or are lost. */
size_t untoldCount(void);

/* SWAPDB has taken the holds to the other database. */
void untoldSwapped(int first_db, int second_db);

/* The first lost grant, or NULL. It stays until it is freed. */
struct untold *untoldFirstLost(void);

/* Takes the name number `index` off the record, which is done with it: the hold is about to be given
 * back. The name is the caller's to free. */
RedisModuleString *untoldTakeName(struct untold *untold, size_t index);

void untoldFree(struct untold *untold);

#endif
