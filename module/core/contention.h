/* Which locks were waited for the most: a sketch in fixed memory, however many locks there are.
 *
 * The "space-saving" algorithm (Metwally, Agrawal, El Abbadi, 2005), by time waited in place of
 * occurrences: there is room for CONTENTION_LOCKS names. A lock that comes when there is no room takes
 * the place of the one with the least time, and inherits that time as its `error`: for so much it may
 * have had before.
 *
 * The time of a lock is that of all its waiters together: two that wait for a second are two seconds.
 * It is reckoned from how many wait since when, and not wait by wait, so that waits which never end
 * count too.
 *
 * What is promised: no lock has waited less than the `time_us` of its view says. It may have waited
 * longer, by its `error_us` at most; and a lock without a place no longer than any that has one, error
 * included. All but the first is said of locks that have never lost their place while somebody waited:
 * such a lock counts again from the next wait that begins or ends there, and of one that ends all of
 * it. It takes more contended locks at a time than there are places to lose many so; then the one that
 * goes is one of the least, since not all are brought up to date to find it.
 *
 * All times are in microseconds by one clock that does not step back.
 */
#ifndef LOCK_CONTENTION_H
#define LOCK_CONTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/heap.h"

#define CONTENTION_LOCKS 256

/* Of a longer name the first bytes are kept. The hash of the whole, which nobody can choose, tells it
 * from others that begin alike. */
#define CONTENTION_LONGEST_NAME 512

/* One lock that has a place. */
struct contentionLock {
    struct mapEntry by_name; /* its key is `name` */
    struct heapNode by_time; /* at `time_us`, or what it was before */
    uint64_t number;         /* no other has had it, in this place or another */
    char *name;              /* the first bytes of it */
    size_t whole_length;     /* of the whole name, like its hash */
    uint64_t whole_hash;
    int db;
    uint64_t waits;  /* that have ended */
    int64_t time_us; /* waited until `until_us`, by all together; `error_us` of it may be others' */
    int64_t error_us;   /* see above */
    int64_t longest_us; /* of the waits that have ended */
    size_t waiting;     /* now */
    int64_t until_us;   /* when `waiting` was set */
    int64_t since_us;   /* when the first of those who wait now came, or the last hand-off was */
    uint64_t kept;      /* hand-offs that count for `kept_us` */
    int64_t kept_us;    /* how long others waited for the holders, as long as each kept it */
};

/* All zero is an empty sketch, which owns no memory. */
struct contention {
    struct map by_name;
    struct heap by_time;
    struct contentionLock
        *locks; /* CONTENTION_LOCKS of them; NULL while there was nothing to count */
    size_t used;
    uint64_t numbers; /* the last that was given */
    int64_t since_us; /* of the last reset: what was before does not count */
};

/* Where a lock was the last time, so that it is found again without a search. Kept by whoever tells of
 * its waits; all zero if that is not known. */
struct contentionTrail {
    size_t place;
    uint64_t number;
};

/* How a wait for a lock began or ended. */
struct contentionEvent {
    const struct mapEntry *name; /* an entry of any map that has the lock's name as its key */
    struct contentionTrail *trail;
    int db;
    size_t waiting; /* how many wait from now on */
    int64_t now_us;
};

/* Somebody begins to wait. */
void contentionBegin(struct contention *sketch, const struct contentionEvent *event);

/* A wait that began at `began_us` is over. `is_hand_off`: because the lock was the waiter's, and
 * whoever had it before had kept it until then. */
void contentionEnd(struct contention *sketch, const struct contentionEvent *event, int64_t began_us,
                   bool is_hand_off);

/* A lock as it is at a moment. */
struct contentionView {
    const char *name;
    size_t name_length;
    bool is_cut; /* the name is longer, and these are its first bytes */
    int db;
    uint64_t waits;     /* that have ended, or are under way */
    size_t waiting;     /* of these, now */
    int64_t time_us;    /* waited, for certain */
    int64_t error_us;   /* so much more it may be */
    int64_t longest_us; /* of the waits that have ended */
    uint64_t kept;
    int64_t kept_us;
};

/* Writes the locks with the most time at `now_us`, at most `count` and CONTENTION_LOCKS, the first one
 * first; of those with the same time in any order. Returns how many. The names are the sketch's, until
 * the next event. */
size_t contentionTop(const struct contention *sketch, int64_t now_us, struct contentionView *top,
                     size_t count);

/* Forgets what was counted until now. Locks for which somebody waits keep their places, and count from
 * now on; but the longest wait is as long as it was when it ends. */
void contentionReset(struct contention *sketch, int64_t now_us);

/* How many pieces of memory the sketch owns. */
size_t contentionMemory(const struct contention *sketch);

/* Frees all that the sketch owns, and empties it. */
void contentionFree(struct contention *sketch);

#endif
