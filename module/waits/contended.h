/* The contended locks. A lock is contended while its queue is not empty.
 *
 * The entry of a lock exists from the time when its first position is added until its last position
 * is removed and the keys of its fair queue show that no client waits. The member `key` is common
 * to all keys that clients wait for (blocking/blockingkey.h). It contains the flags, the timer and
 * the place in the due list.
 */
#ifndef LOCK_CONTENDED_H
#define LOCK_CONTENDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocking/blockingkey.h"
#include "core/contention.h"
#include "core/waitqueue.h"
#include "keys/fairqueue.h"
#include "redismodule.h"

/* The flags of a lock, in addition to those of every key that clients wait for. For a lock,
 * BLOCKINGKEY_EDITED means that an owner in its key may also wait in its queue. */
enum contendedNote {
    /* The fair queue's keys may differ from what was written from memory. */
    CONTENDED_OTHER_POSITIONS = BLOCKINGKEY_KINDS_OWN,
    /* A quarantine has ended. The time of reserved positions is counted from now on. */
    CONTENDED_RESERVES_BEGIN = BLOCKINGKEY_KINDS_OWN << 1,
    /* lock.fair-reserve may have been lowered. No position may be reserved for longer than the new
     * value, counted from now. */
    CONTENDED_RESERVES_CONFIGURED = BLOCKINGKEY_KINDS_OWN << 2
};

/* What fairness.c stores about a lock's fair queue. */
struct fairState {
    struct fairqueueNames names;
    struct list unwritten; /* waiters whose position in the keys is out of date, linked by `note` */
    int64_t last_ticket;
    int64_t expire_ms;  /* when the keys expire */
    int64_t refresh_ms; /* when `expire_ms` is to be extended; 0 = never */
    bool loaded;        /* positions that were in the keys have been loaded into `queue` */
    bool is_grown;      /* the keys are encoded as skiplists (fairqueueGrowEncoding) */
};

struct lock {
    struct blockingkey key;
    struct waitqueue queue;
    struct fairState fair;
    struct contentionTrail trail; /* this and the next two are for LOCK.TOP (toplocks.c) */
    size_t waiting;               /* how many of its positions have a client */
    bool read_last;      /* the last hand-off was to a reader; readers granted next belong to it */
    bool is_cut;         /* the last pass used up its time slice, and the drain continues it */
    bool is_put_off;     /* a key that the pass must write is in use; the pass is retried soon */
    bool own_waits_left; /* see contendedOwnWaitsLeft */
};

/* Sets what the drain does with a due lock. To be called once, at load. */
void contendedConnect(const struct blockingkeyWork *work);

/* The contended lock `name` in database `db`, or NULL. */
struct lock *contendedFind(int db, RedisModuleString *name);

/* The same in the selected database. */
static inline struct lock *contendedFindHere(RedisModuleCtx *ctx, RedisModuleString *name) {
    return contendedFind(RedisModule_GetSelectedDb(ctx), name);
}

/* As contendedFind, but creates the lock if there is none. If so, the caller must add a position to
 * its queue. */
struct lock *contendedFindOrMake(int db, RedisModuleString *name);

/* The lock whose `key` this is; NULL for NULL. */
static inline struct lock *contendedOfKey(struct blockingkey *key) {
    return LIST_ELEMENT_OR_NULL(key, struct lock, key);
}

/* The lock in whose queue this position is, or whose queue this is. */
static inline struct lock *contendedOfQueue(struct waitqueue *queue) {
    return LIST_ELEMENT(queue, struct lock, queue);
}
static inline struct lock *contendedOfPosition(struct position *position) {
    return contendedOfQueue(position->queue);
}

/* The first position of this owner in the lock's queue, or NULL. */
static inline struct position *contendedPositionOf(const struct lock *lock,
                                                   RedisModuleString *owner) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    return waitqueueOfOwner(&lock->queue, bytes, length);
}

/* Whether the keys of the lock's fair queue are up to date. */
static inline bool contendedIsWritten(const struct lock *lock) {
    return listIsEmpty(&lock->fair.unwritten) && !(lock->key.notes & CONTENDED_OTHER_POSITIONS);
}

/* contendedOwnWaitsLeft is to be called when an owner has been granted the lock and its other waits
 * for the lock still have to be checked (rule 2 of docs/design.md), and contendedOwnWaitsSeen when
 * they have been checked. The caller must have set BLOCKINGKEY_EDITED. */
void contendedOwnWaitsLeft(struct lock *lock);
void contendedOwnWaitsAreSeen(struct lock *lock);
static inline void contendedOwnWaitsSeen(struct lock *lock) {
    if (lock->own_waits_left) {
        contendedOwnWaitsAreSeen(lock);
    }
}

/* Whether there is a lock for which contendedOwnWaitsLeft was called and contendedOwnWaitsSeen was
 * not. While there is one, no search for cycles must be made, because these waits may be in the
 * middle of queues, where no search expects them. */
bool contendedAreOwnWaitsLeft(void);

/* How many locks are contended. */
size_t contendedCount(void);

/* To be called when SWAPDB has exchanged two databases. Waiters stay in the database with their
 * number, but the keys of fair queues have moved. So if a lock has a fair queue in one of the two
 * databases, CONTENDED_OTHER_POSITIONS is set for the lock in both. In a database in which no
 * client waits for the lock, the lock remains contended until its keys show that. */
void contendedSwapped(RedisModuleCtx *ctx, int first_db, int second_db);

/* To be called when a data set has been loaded. The keys are those of the file, even if they were
 * flushed before. */
void contendedLoaded(RedisModuleCtx *ctx);

/* To be called when a quarantine has ended. Any waiter may fit now, including a holder in the
 * middle of a queue, and the time of reserved positions is counted from now on. */
void contendedQuarantineEnded(RedisModuleCtx *ctx);

/* To be called when lock.fair-reserve has been changed. */
void contendedReservesConfigured(RedisModuleCtx *ctx);

/* To be called when the wall clock has been set. Waits now end at another unix time, and the keys
 * of fair queues may have expired. */
void contendedClockStepped(RedisModuleCtx *ctx);

#endif
