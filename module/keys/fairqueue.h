/* The keys of a fair queue: what waiters.c has in memory, written down so that positions survive
 * the process.
 *
 *   lock:queue:{key}      sorted set, owner -> ticket: only grows; the lowest is the head
 *   lock:timeout:{key}    sorted set, owner -> when its wait or its reserved position ends, in unix
 *                         milliseconds; +inf for BLOCK 0
 *
 * Memory is the truth while the process lives. These keys are read when it begins with a lock:
 * after a restart, a promotion. The one file that reads and writes them, and each write announces
 * itself (effects.h). Whatever somebody else does to them harms nobody's exclusion: a key of
 * another type is left alone.
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

/* The names of the two keys, kept by whoever opens them again and again; all zero: not made yet. */
struct fairqueueNames {
    RedisModuleString *queue, *timeout;
};

/* Makes `names` all zero. */
void fairqueueForgetNames(struct fairqueueNames *names);

struct fairqueue {
    RedisModuleCtx *ctx;
    struct fairqueueNames names;
    RedisModuleKey *queue, *timeout;
    bool in_use; /* one of the keys is: keynamesSideIsInUse */
};

/* Opens the queue of the lock `name` in the selected database. Always to be closed. `kept` is where
 * its names are kept, or to be kept; or NULL. */
void fairqueueOpenToWrite(struct fairqueue *fq, RedisModuleCtx *ctx, RedisModuleString *name,
                          struct fairqueueNames *kept);
void fairqueueOpenToRead(struct fairqueue *fq, RedisModuleCtx *ctx, RedisModuleString *name);

void fairqueueClose(struct fairqueue *fq);

/* Whether it can be used: RESULT_DONE; RESULT_WRONG_TYPE while another client has put something else
 * under one of the two names; RESULT_KEY_IN_USE, of one that was opened to be written to. */
enum result fairqueueCheck(const struct fairqueue *fq);

/* One position as it is written down. */
struct fairposition {
    RedisModuleString *owner; /* the caller's, or valid during the call */
    int64_t ticket;           /* 1 or more, whatever the key says */
    int64_t end_ms;           /* or FAIRQUEUE_NO_END */
};

/* Gives the owner this position. If that makes a key, it is to expire at `expire_ms`. */
void fairqueuePut(struct fairqueue *fq, const struct fairposition *position, int64_t expire_ms);

/* Makes the server keep both keys, which exist, as trees, however short they are: see trees.h.
 * They stay trees until they are gone. */
void fairqueueGrowTrees(struct fairqueue *fq);

/* Changes when the owner's position ends, and leaves where it is. `expire_ms` as in
 * fairqueuePut. */
void fairqueueSetEnd(struct fairqueue *fq, RedisModuleString *owner, int64_t end_ms,
                     int64_t expire_ms);

/* Takes the owner's position away. The last one takes the keys with it. */
void fairqueueRemove(struct fairqueue *fq, RedisModuleString *owner);

/* Deletes both keys. */
void fairqueueClear(struct fairqueue *fq);

/* Lets both keys expire at `expire_ms`. */
void fairqueueExpireAt(struct fairqueue *fq, int64_t expire_ms);

enum fairqueueOrder { FAIRQUEUE_FROM_FIRST, FAIRQUEUE_FROM_LAST };

struct fairqueueWalk {
    enum fairqueueOrder order;
    int64_t most; /* positions */
    void (*visit)(const struct fairposition *position, void *context);
    void *context;
};

/* Calls `visit` for at most `most` positions, in this order. It changes nothing of the queue. Passes
 * by what is no owner's (ownerfield.h), which counts among the `most`. Returns how many that were. */
size_t fairqueueEach(struct fairqueue *fq, const struct fairqueueWalk *walk);

/* How many positions are written down. */
size_t fairqueueLength(struct fairqueue *fq);

/* The keys come from an earlier life: the server has started, has been promoted, or has loaded a
 * data set. The positions in them are kept for lock.fair-reserve from `now_ms` on, or from when a
 * quarantine is over. */
void fairqueueRestarted(int64_t now_ms);
void fairqueueQuarantineOver(int64_t now_ms);

/* Until when positions from an earlier life are kept. */
int64_t fairqueueRestoredEnd(void);

/* From when a wait since `since_ms` counts: not from before the keys came from an earlier life, as
 * anybody can have written there whatever they say. */
int64_t fairqueueCountedFrom(int64_t since_ms);

/* When a position with this ticket was taken, unix ms, and no later than now. A ticket is the time
 * in µs, or more; a number that somebody else has written and that can be no time counts from when
 * the keys came from an earlier life. */
int64_t fairqueueArrival(int64_t ticket, int64_t now_ms);

#endif
