/* The keys of a fair queue: the positions that waiters.c has in memory, written to keys so that
 * they survive the process.
 *
 *   lock:queue:{key}      sorted set, owner -> ticket: only grows; the lowest is the head
 *   lock:timeout:{key}    sorted set, owner -> when its wait or its reserved position ends, in unix
 *                         milliseconds; +inf for BLOCK 0
 *
 * Memory is the truth while the process lives. The keys are read when the process first uses a
 * lock, after a restart or a promotion. Only this file reads and writes them, and each write is
 * propagated (propagate.h). Whatever another client does to them, no two owners hold the lock
 * because of it. A key of another type is left alone.
 */
#ifndef LOCK_FAIRQUEUE_H
#define LOCK_FAIRQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/keynames.h"
#include "redismodule.h"
#include "server/reply.h"

/* The end of a wait that never ends. */
#define FAIRQUEUE_NO_END INT64_MAX

/* The names of the two keys, kept by a caller that opens them repeatedly. All zero: not made
 * yet. */
struct fairqueueNames {
    RedisModuleString *queue, *timeout;
};

/* Frees the names, and makes `names` all zero. */
void fairqueueForgetNames(struct fairqueueNames *names);

struct fairqueue {
    RedisModuleCtx *ctx;
    struct fairqueueNames names;
    RedisModuleKey *queue, *timeout;
    bool in_use; /* one of the keys is in use: keynamesSideIsInUse */
};

/* Opens the queue of the lock `name` in the selected database. Always to be closed with
 * fairqueueClose. `kept` is where its names are kept, or are to be kept; or NULL. */
void fairqueueOpenToWrite(struct fairqueue *fq, RedisModuleCtx *ctx, RedisModuleString *name,
                          struct fairqueueNames *kept);
void fairqueueOpenToRead(struct fairqueue *fq, RedisModuleCtx *ctx, RedisModuleString *name);

/* Closes both keys, and frees the handle's names. */
void fairqueueClose(struct fairqueue *fq);

/* Whether the queue can be used: RESULT_DONE if so; RESULT_WRONG_TYPE if another client has written
 * a key of another type under one of the two names; RESULT_KEY_IN_USE if one of the keys, opened to
 * write, is in use. */
enum result fairqueueCheck(const struct fairqueue *fq);

/* One position as it is stored. */
struct fairposition {
    RedisModuleString *owner; /* belongs to the caller; in `visit` valid during the call */
    int64_t ticket;           /* 1 or more, even if the key says less */
    int64_t end_ms;           /* unix ms, or FAIRQUEUE_NO_END */
};

/* Stores this position of the owner. A key that this creates expires at `expire_ms`, unix ms. */
void fairqueuePut(struct fairqueue *fq, const struct fairposition *position, int64_t expire_ms);

/* Makes the server encode both keys, which exist, as skiplists, however short they are: see
 * encoding.h. They stay so until they are deleted. */
void fairqueueGrowEncoding(struct fairqueue *fq);

/* Changes when the owner's position ends, and leaves its place in the queue. `expire_ms` as in
 * fairqueuePut. */
void fairqueueSetEnd(struct fairqueue *fq, RedisModuleString *owner, int64_t end_ms,
                     int64_t expire_ms);

/* Removes the owner's position. With the last one the keys are deleted. */
void fairqueueRemove(struct fairqueue *fq, RedisModuleString *owner);

/* Deletes both keys. */
void fairqueueClear(struct fairqueue *fq);

/* Makes both keys expire at `expire_ms`, unix ms. */
void fairqueueExpireAt(struct fairqueue *fq, int64_t expire_ms);

enum fairqueueOrder { FAIRQUEUE_FROM_FIRST, FAIRQUEUE_FROM_LAST };

struct fairqueueWalk {
    enum fairqueueOrder order;
    int64_t most; /* how many positions to visit at most */
    void (*visit)(const struct fairposition *position, void *context);
    void *context;
};

/* Calls `visit` for at most `most` positions, in this order. `visit` must not change the queue.
 * Members that cannot be owners (ownerfield.h) are skipped, but count among the `most`. Returns how
 * many were skipped. */
size_t fairqueueEach(struct fairqueue *fq, const struct fairqueueWalk *walk);

/* How many positions are stored. */
size_t fairqueueLength(struct fairqueue *fq);

/* The keys come from an earlier life of the data set (fence.h): the server has started, has been
 * promoted, or has loaded a data set. The positions in them are kept for lock.fair-reserve, counted
 * from `now_ms`; if a quarantine follows, from its end, `now_ms` of fairqueueQuarantineEnded. Times
 * are unix ms. */
void fairqueueRestarted(int64_t now_ms);
void fairqueueQuarantineEnded(int64_t now_ms);

/* Until when positions from an earlier life are kept, unix ms. */
int64_t fairqueueRestoredEnd(void);

/* From when a wait since `since_ms` counts, unix ms: not from before fairqueueRestarted, because
 * any client may have written earlier times to the keys. */
int64_t fairqueueCountedFrom(int64_t since_ms);

/* When a position with this ticket was taken, unix ms, at most `now_ms`. A ticket is the time in
 * µs, or more. A number that another client has written and that cannot be a time counts from
 * fairqueueRestarted. */
int64_t fairqueueArrival(int64_t ticket, int64_t now_ms);

#endif
