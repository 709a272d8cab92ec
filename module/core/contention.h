/* Which locks were waited for the most: a sketch in fixed memory, however many locks there are.
 *
 * It is the "space-saving" algorithm (Metwally, Agrawal, El Abbadi, 2005), applied to the time
 * waited instead of the number of occurrences. There is room for CONTENTION_LOCKS names. If there
 * is no room for a new lock, it replaces the lock with the least time, and inherits that time as
 * its `error`: it may have been waited for that long before.
 *
 * The time of a lock is the sum over all its waiters: two that wait for a second are two seconds.
 * It is computed from the number of waiters and how long there were that many, not wait by wait, so
 * that waits that never end count too.
 *
 * What is guaranteed: a lock was waited for at least as long as the `time_us` of its view, and at
 * most longer by its `error_us`. A lock without a place was waited for at most as long as any lock
 * that has one, including the error of that. The two upper bounds hold only for locks that have
 * never lost their place while they had waiters: such a lock counts again from the next wait that
 * begins or ends there; of a wait that ends, all of it counts. Many locks lose their place like
 * that only if more locks are contended at a time than there are places. Then the lock that is
 * replaced is one of those with the least time, but not always the least, because not all times are
 * updated to find it.
 *
 * All times are in microseconds of one clock that does not go back.
 */
#ifndef LOCK_CONTENTION_H
#define LOCK_CONTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/heap.h"

#define CONTENTION_LOCKS 256

/* Of a longer name only the first bytes are kept. The hash of the whole name, which clients cannot
 * choose, distinguishes it from other names that begin with the same bytes. */
#define CONTENTION_LONGEST_NAME 512

/* A lock that has a place in the sketch. */
struct contentionLock {
    struct mapEntry by_name; /* its key is `name` */
    struct heapNode by_time; /* its time: `time_us`, or an earlier value */
    uint64_t number;         /* unique: no other lock has had it, in any place */
    char *name;              /* the first bytes of the name */
    size_t whole_length;     /* of the whole name, as is the hash */
    uint64_t whole_hash;
    int db;
    uint64_t waits;     /* waits that have ended */
    int64_t time_us;    /* time waited by all until `until_us`, including `error_us` */
    int64_t error_us;   /* the part of `time_us` that was inherited */
    int64_t longest_us; /* the longest wait that has ended */
    size_t waiting;     /* how many wait now */
    int64_t until_us;   /* when `time_us` and `waiting` were set */
    int64_t since_us;   /* when the first of the current waiters came, or the last hand-off */
    uint64_t kept;      /* hand-offs that count for `kept_us` */
    int64_t kept_us;    /* how long holders kept the lock while others waited */
};

/* All zero is an empty sketch, which owns no memory. */
struct contention {
    struct map by_name;
    struct heap by_time;
    /* CONTENTION_LOCKS of them; NULL until there is something to count. */
    struct contentionLock *locks;
    size_t used;
    uint64_t numbers; /* the last `number` given to a lock */
    int64_t since_us; /* of the last reset: what was before does not count */
};

/* The last known place of a lock, so that it is found again without a search. Kept by the caller
 * for each lock; all zero if it is not known. */
struct contentionTrail {
    size_t place;
    uint64_t number;
};

/* The beginning or the end of a wait for a lock. */
struct contentionEvent {
    const struct mapEntry *name; /* an entry of any map, with the lock's name as its key */
    struct contentionTrail *trail;
    int db;
    size_t waiting; /* how many wait from now on */
    int64_t now_us;
};

/* A client begins to wait. */
void contentionBegin(struct contention *sketch, const struct contentionEvent *event);

/* A wait that began at `began_us` has ended. `is_hand_off`: it ended because the lock was granted
 * to the waiter, after the previous holder had kept it until then. */
void contentionEnd(struct contention *sketch, const struct contentionEvent *event, int64_t began_us,
                   bool is_hand_off);

/* What is known of a lock at a moment. */
struct contentionView {
    const char *name;
    size_t name_length;
    bool is_cut; /* the name is longer: these are its first bytes */
    int db;
    uint64_t waits;     /* ended, and in progress */
    size_t waiting;     /* of these, in progress */
    int64_t time_us;    /* time waited: the lower bound */
    int64_t error_us;   /* the upper bound is higher by this */
    int64_t longest_us; /* the longest wait that has ended */
    uint64_t kept;
    int64_t kept_us;
};

/* Writes the locks with the most time at `now_us` to `top`, at most `count` and CONTENTION_LOCKS,
 * in descending order; locks with the same time in any order. Returns how many. The names belong to
 * the sketch, and are valid until the next event. */
size_t contentionTop(const struct contention *sketch, int64_t now_us, struct contentionView *top,
                     size_t count);

/* Forgets what was counted until now. Locks with waiters keep their places, and count from now on;
 * but when one of their waits ends, all of it counts for the longest wait. */
void contentionReset(struct contention *sketch, int64_t now_us);

/* How many allocations the sketch owns. */
size_t contentionMemory(const struct contention *sketch);

/* Frees all that the sketch owns, and empties it. */
void contentionFree(struct contention *sketch);

#endif
