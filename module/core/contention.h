/* A sketch of the locks that were waited for the most. It uses a fixed amount of memory, however
 * many locks there are.
 *
 * It uses the "space-saving" algorithm (Metwally, Agrawal, El Abbadi, 2005), applied to the time
 * waited instead of the number of occurrences. There is room for CONTENTION_LOCKS names. If there
 * is no room for a new lock, the new lock replaces the lock with the least time, and inherits that
 * time as its `error`, because clients may have waited for the new lock that long before.
 *
 * The time of a lock is the sum over all its waiters. If two clients wait for one second, the time
 * is two seconds. It is computed from the number of waiters and how long there were that many, and
 * not for each wait, so that waits that never end count too.
 *
 * The following is guaranteed. Clients waited for a lock at least as long as the `time_us` of its
 * view, and at most `time_us` + `error_us`. Clients waited for a lock without a place at most as
 * long as for any lock that has a place, including the error of that lock. The two upper bounds are
 * valid only for locks that have never lost their place while they had waiters. If a lock has lost
 * its place, its time is counted again from the next wait that begins or ends; if a wait ends, all
 * of it is counted. Many locks lose their place while they have waiters only if more locks are
 * contended at a time than there are places. In that case the lock that is replaced has one of the
 * least times, but not always the least, because not all times are updated to find it.
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

/* If a name is longer, only its first bytes are stored. The hash of the whole name, which clients
 * cannot choose, distinguishes the name from other names that begin with the same bytes. */
#define CONTENTION_LONGEST_NAME 512

/* A lock that has a place in the sketch. */
struct contentionLock {
    struct mapEntry by_name; /* its key is `name` */
    struct heapNode by_time; /* by `time_us`, or an earlier value of it */
    uint64_t number;         /* unique; no other lock has had this number, in any place */
    char *name;              /* the first bytes of the name */
    size_t whole_length;     /* this and the hash are of the whole name */
    uint64_t whole_hash;
    int db;
    uint64_t waits;     /* waits that have ended */
    int64_t time_us;    /* time waited by all until `until_us`, including `error_us` */
    int64_t error_us;   /* the part of `time_us` that was inherited */
    int64_t longest_us; /* the longest wait that has ended */
    size_t waiting;     /* how many wait now */
    int64_t until_us;   /* when `time_us` and `waiting` were set */
    int64_t
        since_us;    /* when the first of the current waiters began to wait, or the last hand-off */
    uint64_t kept;   /* how many hand-offs are counted in `kept_us` */
    int64_t kept_us; /* how long holders kept the lock while others waited */
};

/* An empty sketch is all zero, and owns no memory. */
struct contention {
    struct map by_name;
    struct heap by_time;
    /* An array of CONTENTION_LOCKS elements; NULL until there is something to count. */
    struct contentionLock *locks;
    size_t used;
    uint64_t numbers; /* the last `number` given to a lock */
    int64_t since_us; /* the time of the last reset; earlier waiting time is not counted */
};

/* The last known place of a lock, so that the lock is found again without a search. The caller
 * keeps one for each lock. All zero if the place is not known. */
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

/* A wait that began at `began_us` has ended. `is_hand_off` is whether it ended because the lock was
 * granted to the waiter, and the previous holder had kept the lock until then. */
void contentionEnd(struct contention *sketch, const struct contentionEvent *event, int64_t began_us,
                   bool is_hand_off);

/* What the sketch contains about a lock at one moment. */
struct contentionView {
    const char *name;
    size_t name_length;
    bool is_cut; /* the name is longer, and `name` contains only its first bytes */
    int db;
    uint64_t waits;     /* how many waits have ended or are in progress */
    size_t waiting;     /* how many of these are in progress */
    int64_t time_us;    /* the lower bound of the time waited */
    int64_t error_us;   /* the upper bound is `time_us` + `error_us` */
    int64_t longest_us; /* the longest wait that has ended */
    uint64_t kept;
    int64_t kept_us;
};

/* Writes the locks with the most time at `now_us` to `top`, in descending order, at most `count`
 * and at most CONTENTION_LOCKS. Locks with the same time are in no particular order. Returns how
 * many it has written. The names belong to the sketch, and are valid until the next event. */
size_t contentionTop(const struct contention *sketch, int64_t now_us, struct contentionView *top,
                     size_t count);

/* Forgets everything that was counted until now. Locks with waiters keep their places, and their
 * time is counted from now on. But when one of their current waits ends, the whole wait is used for
 * the longest wait. */
void contentionReset(struct contention *sketch, int64_t now_us);

/* How many memory allocations the sketch owns. */
size_t contentionMemory(const struct contention *sketch);

/* Frees everything that the sketch owns, and empties the sketch. */
void contentionFree(struct contention *sketch);

#endif
