/* The keys of a fair queue. They store the positions that waiters.c has in memory, so that the
 * positions survive the process.
 *
 *   lock:queue:{key}      sorted set, owner -> ticket. Tickets increase in order of arrival, and
 *                         the owner with the lowest ticket is the head of the queue
 *   lock:timeout:{key}    sorted set, owner -> when its wait or its reserved position ends, in unix
 *                         milliseconds; +inf for BLOCK 0
 *
 * While the process runs, the positions in memory are used. The keys are only read when the process
 * uses a lock for the first time after a restart or a promotion. Only this file reads and writes
 * them, and each write is propagated (propagate.h). Whatever another client writes to them, two
 * owners never hold the lock because of it. A key of another type is not changed.
 */
#ifndef LOCK_FAIRQUEUE_H
#define LOCK_FAIRQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/reply.h"
#include "keys/keynames.h"
#include "redismodule.h"

/* The end of a wait that never ends. */
#define FAIRQUEUE_NO_END INT64_MAX

/* The names of the two keys, kept by a caller that opens the keys repeatedly. All zero while the
 * names have not been created. */
struct fairqueueNames {
    RedisModuleString *queue, *timeout;
};

/* Frees the names, and makes `names` all zero. */
void fairqueueForgetNames(struct fairqueueNames *names);

struct fairqueue {
    RedisModuleCtx *ctx;
    struct fairqueueNames names;
    RedisModuleKey *queue, *timeout;
    bool in_use; /* one of the keys is in use (see keynamesSideIsInUse) */
};

/* Opens the queue of the lock `name` in the selected database. Always to be closed with
 * fairqueueClose. `kept` contains the names of the keys, or gets them; NULL if the caller does not
 * keep the names. */
void fairqueueOpenToWrite(struct fairqueue *fq, RedisModuleCtx *ctx, RedisModuleString *name,
                          struct fairqueueNames *kept);
void fairqueueOpenToRead(struct fairqueue *fq, RedisModuleCtx *ctx, RedisModuleString *name);

/* Closes both keys, and frees the handle's names. */
void fairqueueClose(struct fairqueue *fq);

/* Whether the queue can be used. Returns:
 *
 *   RESULT_DONE          the queue can be used
 *   RESULT_WRONG_TYPE    another client has written a key of another type under one of the names
 *   RESULT_KEY_IN_USE    the keys were opened to write, and one of them is in use
 */
enum result fairqueueCheck(const struct fairqueue *fq);

/* One position as it is stored. */
struct fairposition {
    RedisModuleString *owner; /* belongs to the caller; in `visit` valid during the call */
    int64_t ticket;           /* 1 or more, even if the key contains less */
    int64_t end_ms;           /* unix ms, or FAIRQUEUE_NO_END */
};

/* Stores this position of the owner. A key that this creates expires at `expire_ms`, unix ms. */
void fairqueuePut(struct fairqueue *fq, const struct fairposition *position, int64_t expire_ms);

/* Makes the server encode both keys, which must exist, as skiplists, however short they are (see
 * encoding.h). They remain skiplists until they are deleted. */
void fairqueueGrowEncoding(struct fairqueue *fq);

/* Changes when the owner's position ends, and does not change its place in the queue. `expire_ms`
 * as in fairqueuePut. */
void fairqueueSetEnd(struct fairqueue *fq, RedisModuleString *owner, int64_t end_ms,
                     int64_t expire_ms);

/* Removes the owner's position. If no positions remain, the keys are deleted. */
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
 * Members that cannot be owners (ownerfield.h) are skipped, but count towards `most`. Returns how
 * many were skipped. */
size_t fairqueueEach(struct fairqueue *fq, const struct fairqueueWalk *walk);

/* How many positions are stored. */
size_t fairqueueLength(struct fairqueue *fq);

/* To be called when a new life of the data set has begun (fence.h), because the server has started,
 * has changed its role, or has loaded a data set. All positions in the keys are from an earlier
 * life. They are kept for lock.fair-reserve, counted from `now_ms`, unix ms. If a quarantine
 * follows, the time is counted from its end, which is the `now_ms` of fairqueueQuarantineEnded. */
void fairqueueRestarted(int64_t now_ms);
void fairqueueQuarantineEnded(int64_t now_ms);

/* To be called when positions from an earlier life may be kept for longer than before, because
 * lock.fair-reserve has been changed, or the clock has been set. */
void fairqueueMayHaveRestored(void);

/* Whether positions from an earlier life are kept at `now_ms`, unix ms. */
bool fairqueueHasRestored(int64_t now_ms);

/* Until when positions from an earlier life are kept, unix ms. */
int64_t fairqueueRestoredEnd(void);

/* The time from which a wait that began at `since_ms` is counted, unix ms. This is not before
 * fairqueueRestarted, because any client may have written earlier times to the keys. */
int64_t fairqueueCountedFrom(int64_t since_ms);

/* When the owner of a position with this ticket began to wait, unix ms, at most `now_ms`. A ticket
 * is the unix time in µs, or a larger number. For a number that another client has written and that
 * cannot be a time, returns the time of fairqueueRestarted. */
int64_t fairqueueArrival(int64_t ticket, int64_t now_ms);

#endif
