/* The table of contended locks: those in whose queue somebody stands, and no others.
 *
 * An entry exists from the first position to the last, and until the keys of its fair queue say that
 * nobody waits: no waiters, no memory. It also carries the notes about the lock: that it is due
 * (something happened to it that the drain must look at), and the timer that will look whether its
 * lease has ended.
 */
#ifndef LOCK_CONTENDED_H
#define LOCK_CONTENDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/waitqueue.h"
#include "keys/fairqueue.h"
#include "redismodule.h"

/* Every database, where a function takes a number. */
#define CONTENDED_EVERY_DB (-1)

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

/* What has happened to a lock since the last look at it, one bit each. Causes add up: a note stays
 * until it is worked off, whatever else happens; only a load makes a flush void. */
enum contendedNote {
    CONTENDED_EDITED = 1 << 0,      /* the key may have a holder who waits here */
    CONTENDED_LEASE_ENDED = 1 << 1, /* the server has told that the key expired */
    CONTENDED_FLUSHED = 1 << 2,     /* its keys have been flushed */
    CONTENDED_OTHER_PLACES = 1 << 3 /* its fair queue's keys may not be what memory wrote */
};

/* No note: nothing is known to have happened, it is only time to look. */
#define CONTENDED_LOOK 0U

struct lock {
    struct mapEntry by_name;
    struct link in_due;
    struct waitqueue queue;
    struct fairState fair;
    RedisModuleString *name;
    int db;
    bool in_use; /* see contendedUse */
    bool due;
    bool is_cut; /* the turn was over before the last pass was: the drain goes on with it */
    bool has_timer;
    unsigned notes; /* of enum contendedNote */
    RedisModuleTimerID timer;
    int64_t timer_at_ms;
    int64_t asked_before; /* of CONTENDED_EDITED: positions below this order have been worked off */
};

/* The contended lock `name` in database `db`, or NULL. One comparison when nobody waits anywhere.
 */
struct lock *contendedFind(int db, RedisModuleString *name);

/* Likewise, but made when there is none; then the caller adds a position to its queue. */
struct lock *contendedFindOrMake(int db, RedisModuleString *name);

/* Forgets the lock, its notes and its timer, if nobody stands in its queue any more and the keys of
 * its fair queue say so. To be called after each removal from the queue; the pointer may be dead
 * afterwards. */
void contendedDropIfIdle(RedisModuleCtx *ctx, struct lock *lock);

/* While a lock is in use, contendedDropIfIdle leaves it alone, so that whoever walks its queue may
 * take waiters out of it; and whoever uses it looks at what becomes due, so no alarm is set for that.
 * Not nested: the first end ends it. */
void contendedUse(struct lock *lock);

/* Ends the use, and drops the lock if it has become idle. */
void contendedEndUse(RedisModuleCtx *ctx, struct lock *lock);

/* The lock in whose queue this position stands. */
struct lock *contendedOfPosition(struct position *position);

/* Whether the keys of its fair queue say what memory knows. */
bool contendedIsWritten(const struct lock *lock);

/* How many locks are contended. */
size_t contendedCount(void);

/* Notes that something happened to the lock, and sets the alarm, unless the lock is in use. Allowed
 * in every callback. */
void contendedMarkDue(RedisModuleCtx *ctx, struct lock *lock);

/* Likewise, and notes what it was: `notes`, of enum contendedNote. What the drain is working off
 * already it begins anew. */
void contendedNote(RedisModuleCtx *ctx, struct lock *lock, unsigned notes);

/* Likewise for every contended lock of this database, or of CONTENDED_EVERY_DB. */
void contendedNoteAll(RedisModuleCtx *ctx, int db, unsigned notes);

/* Two databases have changed positions. Whoever waits stays in the database of its number; the keys of
 * fair queues went. So a lock with a fair queue in one of the two is noted in both; where nobody
 * waits for it, it is contended until its keys say so. */
void contendedSwapped(RedisModuleCtx *ctx, int first_db, int second_db);

/* A data set has been loaded: the keys are those of the file, whatever was flushed before. */
void contendedLoaded(RedisModuleCtx *ctx);

/* Whether this is noted of the lock. It is not any more: the caller works it off. */
bool contendedTakeNote(struct lock *lock, enum contendedNote note);

/* The note that waits longest, or NULL. */
struct lock *contendedFirstDue(void);

/* Takes the note away: its lock is being looked at. Does nothing when there is none. */
void contendedClearDue(struct lock *lock);

/* Makes sure that the lock becomes due just after `at_ms` (unix time; INT64_MAX = never). The timer
 * is kept when it fires earlier than that: the pass that follows sets it again. */
void contendedWatch(RedisModuleCtx *ctx, struct lock *lock, int64_t at_ms, int64_t now_ms);

/* In a cluster, makes all contended locks due once a second as long as there are any: Redis 7.0
 * gives slots away without any event for their keys. Does nothing elsewhere. */
void contendedWatchSlots(RedisModuleCtx *ctx);

#endif
