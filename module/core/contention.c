/* See contention.h. */
#include "core/contention.h"

#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "core/mem.h"

/* At most this many locks with waiters are updated to find the one to be replaced. */
#define MOST_REFRESHED 4

static struct contentionLock *contentionOfName(struct mapEntry *entry) {
    return LIST_ELEMENT(entry, struct contentionLock, by_name);
}

static struct contentionLock *ofTime(struct heapNode *node) {
    return LIST_ELEMENT(node, struct contentionLock, by_time);
}

/* The sum of two times that are not negative, or the largest time if that is less. */
static int64_t sum(int64_t a, int64_t b) {
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static int64_t since(int64_t from_us, int64_t now_us) {
    return now_us > from_us ? now_us - from_us : 0;
}

/* The time of a lock at this moment. */
static int64_t timeAt(const struct contentionLock *lock, int64_t now_us) {
    int64_t waited_us, time_us;
    bool is_too_long =
        __builtin_mul_overflow(since(lock->until_us, now_us), (int64_t)lock->waiting, &waited_us) ||
        __builtin_add_overflow(lock->time_us, waited_us, &time_us);
    return is_too_long ? INT64_MAX : time_us;
}

/* ---- finding ---- */

static size_t keptLength(size_t length) {
    return length < CONTENTION_LONGEST_NAME ? length : CONTENTION_LONGEST_NAME;
}

/* A map entry has the hash of its key, so nothing is hashed here. */
static bool contentionIsOf(const struct contentionLock *lock, const struct contentionEvent *event) {
    return lock->db == event->db && lock->whole_length == event->name->key_length &&
           lock->whole_hash == event->name->hash;
}

static struct contentionLock *search(const struct contention *sketch,
                                     const struct contentionEvent *event) {
    const struct mapEntry *name = event->name;
    struct mapEntry *entry = name->key_length <= CONTENTION_LONGEST_NAME
                                 ? mapFindLike(&sketch->by_name, name)
                                 : mapFind(&sketch->by_name, name->key, CONTENTION_LONGEST_NAME);
    while (entry && !contentionIsOf(contentionOfName(entry), event)) {
        entry = mapFindNext(entry);
    }
    return entry ? contentionOfName(entry) : NULL;
}

static void leaveTrail(const struct contention *sketch, const struct contentionLock *lock,
                       struct contentionTrail *trail) {
    trail->place = (size_t)(lock - sketch->locks);
    trail->number = lock->number;
}

static struct contentionLock *contentionFind(const struct contention *sketch,
                                             const struct contentionEvent *event) {
    const struct contentionTrail *trail = event->trail;
    if (trail->place < sketch->used && sketch->locks[trail->place].number == trail->number) {
        return &sketch->locks[trail->place];
    }
    struct contentionLock *lock = search(sketch, event);
    if (lock) {
        leaveTrail(sketch, lock, event->trail);
    }
    return lock;
}

/* ---- adding and replacing ---- */

/* The place of the lock with the least time. The heap has earlier times, which are not larger: its
 * first lock gets its current time until one has that already. For locks without waiters that is no
 * more work than if each wait that ends updated the heap, as most of them never come first. The
 * times of locks with waiters grow all the time, so only a few of those are updated; then the
 * result is the least of these. */
static struct contentionLock *leastAt(struct contention *sketch, int64_t now_us) {
    struct contentionLock *least = NULL;
    for (int refreshed = 0; refreshed < MOST_REFRESHED;) {
        struct contentionLock *lowest = ofTime(heapFirst(&sketch->by_time));
        int64_t time_us = timeAt(lowest, now_us);
        if (time_us == lowest->by_time.at) {
            return lowest;
        }
        heapPut(&sketch->by_time, &lowest->by_time, time_us);
        if (lowest->waiting > 0) {
            refreshed++;
            least = least && least->by_time.at <= time_us ? least : lowest;
        }
    }
    return least;
}

/* Empties a place. The time of the lock that was there becomes the error of the next one. */
static struct contentionLock *contentionMakeRoom(struct contention *sketch, int64_t now_us) {
    struct contentionLock *least = leastAt(sketch, now_us);
    int64_t time_us = least->by_time.at;
    mapRemove(&sketch->by_name, &least->by_name);
    heapRemove(&sketch->by_time, &least->by_time);
    memFree(least->name);
    *least = (struct contentionLock){.time_us = time_us, .error_us = time_us};
    return least;
}

static struct contentionLock *freePlace(struct contention *sketch, int64_t now_us) {
    if (!sketch->locks) {
        sketch->locks = memAlloc(CONTENTION_LOCKS * sizeof(sketch->locks[0]));
    }
    return sketch->used < CONTENTION_LOCKS ? &sketch->locks[sketch->used++]
                                           : contentionMakeRoom(sketch, now_us);
}

/* Copies the name, or its beginning, to the place. */
static void name(struct contention *sketch, struct contentionLock *lock,
                 const struct mapEntry *whole) {
    size_t length = keptLength(whole->key_length);
    lock->whole_length = whole->key_length;
    lock->whole_hash = whole->hash;
    lock->name = memAlloc(length + 1); /* a name may be empty */
    memcpy(lock->name, whole->key, length);
    if (length == whole->key_length) {
        const struct mapEntry like = {.key = lock->name, .key_length = length, .hash = whole->hash};
        mapAddLike(&sketch->by_name, &lock->by_name, &like);
    } else {
        mapAdd(&sketch->by_name, &lock->by_name, lock->name, length);
    }
}

static struct contentionLock *contentionMake(struct contention *sketch,
                                             const struct contentionEvent *event) {
    struct contentionLock *lock = freePlace(sketch, event->now_us);
    lock->number = ++sketch->numbers;
    lock->db = event->db;
    name(sketch, lock, event->name);
    heapPut(&sketch->by_time, &lock->by_time, lock->time_us);
    lock->until_us = lock->since_us = event->now_us;
    leaveTrail(sketch, lock, event->trail);
    return lock;
}

/* ---- events ---- */

void contentionBegin(struct contention *sketch, const struct contentionEvent *event) {
    struct contentionLock *lock = contentionFind(sketch, event);
    lock = lock ? lock : contentionMake(sketch, event);
    lock->time_us = timeAt(lock, event->now_us); /* the heap is left as it is: see leastAt */
    lock->until_us = event->now_us;
    if (event->waiting == 1) {
        lock->since_us = event->now_us;
    }
    lock->waiting = event->waiting;
}

/* For a lock that lost its place during the wait that ends now, and with it at least the time of
 * this wait. */
static struct contentionLock *makeAgain(struct contention *sketch,
                                        const struct contentionEvent *event, int64_t began_us) {
    struct contentionLock *lock = contentionMake(sketch, event);
    int64_t from_us = began_us > sketch->since_us ? began_us : sketch->since_us;
    lock->time_us = sum(lock->time_us, since(from_us, event->now_us));
    return lock;
}

void contentionEnd(struct contention *sketch, const struct contentionEvent *event, int64_t began_us,
                   bool is_hand_off) {
    struct contentionLock *known = contentionFind(sketch, event);
    struct contentionLock *lock = known ? known : makeAgain(sketch, event, began_us);
    int64_t waited_us = since(began_us, event->now_us);
    lock->time_us = timeAt(lock, event->now_us); /* the heap is left as it is: see leastAt */
    lock->until_us = event->now_us;
    lock->longest_us = waited_us > lock->longest_us ? waited_us : lock->longest_us;
    lock->waits++;
    lock->waiting = event->waiting;
    if (is_hand_off) {
        /* It is not known since when a lock was kept that had lost its place. */
        lock->kept += known != NULL;
        lock->kept_us += since(lock->since_us, event->now_us); /* at most the server's uptime */
        lock->since_us = event->now_us;
    }
}

/* ---- reading ---- */

static int compareTimes(const void *a, const void *b) {
    int64_t first = ((const struct contentionView *)a)->time_us;
    int64_t second = ((const struct contentionView *)b)->time_us;
    return (first < second) - (first > second);
}

static struct contentionView viewOf(const struct contentionLock *lock, int64_t now_us) {
    return (struct contentionView){
        .name = lock->name,
        .name_length = lock->by_name.key_length,
        .is_cut = lock->whole_length > CONTENTION_LONGEST_NAME,
        .db = lock->db,
        .waits = lock->waits + lock->waiting,
        .waiting = lock->waiting,
        .time_us = timeAt(lock, now_us) - lock->error_us,
        .error_us = lock->error_us,
        .longest_us = lock->longest_us,
        .kept = lock->kept,
        .kept_us = lock->kept_us,
    };
}

size_t contentionTop(const struct contention *sketch, int64_t now_us, struct contentionView *top,
                     size_t count) {
    struct contentionView views[CONTENTION_LOCKS];
    if (sketch->used == 0) {
        return 0;
    }
    for (size_t i = 0; i < sketch->used; i++) {
        views[i] = viewOf(&sketch->locks[i], now_us);
    }
    qsort(views, sketch->used, sizeof(views[0]), compareTimes);
    size_t length = count < sketch->used ? count : sketch->used;
    memcpy(top, views, length * sizeof(views[0]));
    return length;
}

static void freeNames(struct contention *sketch) {
    for (size_t i = 0; i < sketch->used; i++) {
        struct contentionLock *lock = &sketch->locks[i];
        mapRemove(&sketch->by_name, &lock->by_name);
        heapRemove(&sketch->by_time, &lock->by_time);
        memFree(lock->name);
    }
}

size_t contentionMemory(const struct contention *sketch) {
    /* The names, the places, the arrays of the map, the nodes of the heap. */
    return sketch->used + (sketch->locks != NULL) + mapMemory(&sketch->by_name) +
           (sketch->used > 0 ? 1 : 0);
}

void contentionFree(struct contention *sketch) {
    freeNames(sketch);
    memFree(sketch->locks);
    *sketch = (struct contention){0};
}

/* Begins to count the lock, with its current waiters. */
static void contentionRestart(struct contention *sketch, const struct contentionLock *lock) {
    const struct mapEntry name = {
        .key = lock->name, .key_length = lock->whole_length, .hash = lock->whole_hash};
    struct contentionTrail unknown = {0};
    contentionBegin(sketch, &(struct contentionEvent){.name = &name,
                                                      .trail = &unknown,
                                                      .db = lock->db,
                                                      .waiting = lock->waiting,
                                                      .now_us = sketch->since_us});
}

/* The places that remain move to the front. */
void contentionReset(struct contention *sketch, int64_t now_us) {
    struct contention old = *sketch;
    *sketch = (struct contention){.since_us = now_us, .numbers = old.numbers};
    for (size_t i = 0; i < old.used; i++) {
        if (old.locks[i].waiting > 0) {
            contentionRestart(sketch, &old.locks[i]);
        }
    }
    contentionFree(&old);
}
