/* The contended locks: those in whose queue somebody stands, and no others.
 *
 * An entry exists from the first position to the last, and until the keys of its fair queue say that
 * nobody waits. What it has in common with everything else that is waited for, its notes, its timer,
 * its being due, is in `key`: see blocking/waitedkey.h.
 */
#ifndef LOCK_CONTENDED_H
#define LOCK_CONTENDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocking/waitedkey.h"
#include "core/contention.h"
#include "core/waitqueue.h"
#include "keys/fairqueue.h"
#include "redismodule.h"

/* The notes that only a lock has. WAITEDKEY_EDITED says of a lock that its key may have a holder who
 * waits here. */
enum contendedNote {
    /* The fair queue's keys may not be what memory wrote. */
    CONTENDED_OTHER_POSITIONS = WAITEDKEY_KINDS_OWN,
    /* A quarantine is over: reserved positions count from now. */
    CONTENDED_RESERVES_BEGIN = WAITEDKEY_KINDS_OWN << 1,
    /* lock.fair-reserve may be lower than it was: no position is reserved for longer from now. */
    CONTENDED_RESERVES_CONFIGURED = WAITEDKEY_KINDS_OWN << 2
};

/* What fairness.c keeps of a lock's fair queue. */
struct fairState {
    struct fairqueueNames names;
    struct list unwritten; /* waiters whose position the keys do not show as it is, by `note` */
    int64_t last_ticket;
    int64_t expire_ms;  /* when the keys expire */
    int64_t refresh_ms; /* when that has to be put off; 0 = not at all */
    bool loaded;        /* positions from an earlier life are in `queue` */
    bool trees;         /* the server keeps the keys as trees: fairqueueGrowTrees */
};

struct lock {
    struct waitedkey key;
    struct waitqueue queue;
    struct fairState fair;
    struct contentionTrail trail; /* of LOCK.TOP, see toplocks.c, like the next two */
    size_t waiting;               /* how many of its positions have a client */
    bool read_last; /* the last hand-off was to a reader: those that follow at once share it */
    bool is_cut; /* the time slice was over before the last pass was: the drain goes on with it */
    bool is_put_off;     /* a key that this pass would write to is in use: it is made again soon */
    bool own_waits_left; /* a holder's other waits stand where no search expects them */
};

/* Says, once at load, what is done with a lock that is due. */
void contendedConnect(const struct waitedkeyWork *work);

/* The contended lock `name` in database `db`, or NULL. */
struct lock *contendedFind(int db, RedisModuleString *name);

/* Likewise, but made when there is none; then the caller adds a position to its queue. */
struct lock *contendedFindOrMake(int db, RedisModuleString *name);

/* The lock that an entry of the due list is. */
struct lock *contendedOfKey(struct waitedkey *key);

/* The lock in whose queue this position stands; whose queue this is. */
struct lock *contendedOfPosition(struct position *position);
struct lock *contendedOfQueue(struct waitqueue *queue);

/* A position of this owner in the lock's queue, or NULL. */
struct position *contendedPositionOf(const struct lock *lock, RedisModuleString *owner);

/* Whether the keys of its fair queue say what memory knows. */
bool contendedIsWritten(const struct lock *lock);

/* An owner has been granted the lock, and whatever else it waits for there has yet to be looked at (rule
 * 2); has been. The caller has noted WAITEDKEY_EDITED. */
void contendedOwnWaitsLeft(struct lock *lock);
void contendedOwnWaitsSeen(struct lock *lock);

/* Whether there is such a lock: until there is none, no search sees the waits as they are. */
bool contendedAreOwnWaitsLeft(void);

/* How many locks are contended. */
size_t contendedCount(void);

/* Two databases have changed places. Whoever waits stays in the database of its number; the keys of
 * fair queues went. So a lock with a fair queue in one of the two is noted in both; where nobody
 * waits for it, it is contended until its keys say so. */
void contendedSwapped(RedisModuleCtx *ctx, int first_db, int second_db);

/* A data set has been loaded: the keys are those of the file, whatever was flushed before. */
void contendedLoaded(RedisModuleCtx *ctx);

/* A quarantine is over: whoever waits may fit, also a holder in the middle of a queue; and reserved
 * positions count from now. */
void contendedQuarantineOver(RedisModuleCtx *ctx);

/* lock.fair-reserve has been changed. */
void contendedReservesConfigured(RedisModuleCtx *ctx);

/* The wall clock has been set: when waits end is another unix time now, and the keys of fair queues
 * may have expired. */
void contendedClockStepped(RedisModuleCtx *ctx);

#endif
