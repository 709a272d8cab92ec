/* The contended locks: those whose queue is not empty, and no others.
 *
 * An entry exists from the first position to the last, and until the keys of its fair queue show
 * that nobody waits. What it has in common with every other key that clients wait for, such as its
 * flags, its timer and its place in the due list, is in `key`: see blocking/blockingkey.h.
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

/* The flags of a lock, in addition to those of every waited-for key. For a lock, BLOCKINGKEY_EDITED
 * means that its key may have an owner that also waits in its queue. */
enum contendedNote {
    /* The fair queue's keys may differ from what was written from memory. */
    CONTENDED_OTHER_POSITIONS = BLOCKINGKEY_KINDS_OWN,
    /* A quarantine has ended: the time of reserved positions counts from now. */
    CONTENDED_RESERVES_BEGIN = BLOCKINGKEY_KINDS_OWN << 1,
    /* lock.fair-reserve may have been lowered: no position is reserved for longer than that from
     * now. */
    CONTENDED_RESERVES_CONFIGURED = BLOCKINGKEY_KINDS_OWN << 2
};

/* What fairness.c stores about a lock's fair queue. */
struct fairState {
    struct fairqueueNames names;
    struct list unwritten; /* waiters whose position in the keys is out of date, by `note` */
    int64_t last_ticket;
    int64_t expire_ms;  /* when the keys expire */
    int64_t refresh_ms; /* when that is to be extended; 0 = never */
    bool loaded;        /* positions that were in the keys have been loaded into `queue` */
    bool is_grown;      /* the keys are encoded as skip lists: fairqueueGrowEncoding */
};

struct lock {
    struct blockingkey key;
    struct waitqueue queue;
    struct fairState fair;
    struct contentionTrail trail; /* for LOCK.TOP, see toplocks.c, as are the next two */
    size_t waiting;               /* how many of its positions have a client */
    bool read_last;      /* the last hand-off was to a reader: readers granted next share it */
    bool is_cut;         /* the last pass used up its time slice: the drain continues it */
    bool is_put_off;     /* a key that this pass must write is in use: it is retried soon */
    bool own_waits_left; /* other waits of a holder are where no search expects them */
};

/* To be called once, at load: what is done with a due lock. */
void contendedConnect(const struct blockingkeyWork *work);

/* The contended lock `name` in database `db`, or NULL. */
struct lock *contendedFind(int db, RedisModuleString *name);

/* The same, but creates it if there is none; then the caller must add a position to its queue. */
struct lock *contendedFindOrMake(int db, RedisModuleString *name);

/* The lock whose entry in the due list this is; NULL for NULL. */
struct lock *contendedOfKey(struct blockingkey *key);

/* The lock in whose queue this position is; whose queue this is. */
struct lock *contendedOfPosition(struct position *position);
struct lock *contendedOfQueue(struct waitqueue *queue);

/* The first position of this owner in the lock's queue, or NULL. */
struct position *contendedPositionOf(const struct lock *lock, RedisModuleString *owner);

/* Whether the keys of its fair queue are up to date. */
bool contendedIsWritten(const struct lock *lock);

/* An owner has been granted the lock, and its other waits there are still to be checked (rule 2 of
 * docs/design.md); they have been checked. The caller has set BLOCKINGKEY_EDITED. */
void contendedOwnWaitsLeft(struct lock *lock);
void contendedOwnWaitsSeen(struct lock *lock);

/* Whether there is such a lock. While there is one, a search for cycles does not see the waits as
 * they are. */
bool contendedAreOwnWaitsLeft(void);

/* How many locks are contended. */
size_t contendedCount(void);

/* SWAPDB has exchanged two databases. Waiters stay in the database with their number, but the keys
 * of fair queues have moved. So a lock that has a fair queue in one of the two gets
 * CONTENDED_OTHER_POSITIONS in both. Where nobody waits for it, it is contended until its keys show
 * that. */
void contendedSwapped(RedisModuleCtx *ctx, int first_db, int second_db);

/* A data set has been loaded: the keys are those of the file, even if they were flushed before. */
void contendedLoaded(RedisModuleCtx *ctx);

/* A quarantine has ended: any waiter may fit now, also a holder in the middle of a queue, and the
 * time of reserved positions counts from now. */
void contendedQuarantineEnded(RedisModuleCtx *ctx);

/* lock.fair-reserve has been changed. */
void contendedReservesConfigured(RedisModuleCtx *ctx);

/* The wall clock has been set: waits now end at another unix time, and the keys of fair queues may
 * have expired. */
void contendedClockStepped(RedisModuleCtx *ctx);

#endif
