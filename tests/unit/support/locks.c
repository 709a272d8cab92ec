/* See locks.h. */
#include "locks.h"

#include <string.h>

#include "core/list.h"
#include "unit.h"

struct fakeLock *lockOfQueue(struct waitqueue *queue) {
    return LIST_ELEMENT(queue, struct fakeLock, queue);
}

static bool isOf(const struct fakeHold *hold, const char *owner, size_t length) {
    return hold->length == length && memcmp(hold->owner, owner, length) == 0;
}

void lockHold(struct fakeLock *lock, const char *owner, size_t length, enum lockMode mode) {
    assert_true(lock->held < LOCKS_MOST_HOLDS);
    lock->holds[lock->held++] = (struct fakeHold){owner, length, mode};
}

void lockRelease(struct fakeLock *lock, const char *owner, size_t length, enum lockMode mode) {
    for (size_t i = 0; i < lock->held; i++) {
        if (isOf(&lock->holds[i], owner, length) && lock->holds[i].mode == mode) {
            lock->holds[i] = lock->holds[--lock->held];
            return;
        }
    }
}

/* Not from rules.c: only reads are compatible. */
static bool excludes(enum lockMode one, enum lockMode other) {
    return one != MODE_READ || other != MODE_READ;
}

bool lockIsInTheWay(const struct fakeLock *lock, const char *owner, size_t length,
                    enum lockMode mode) {
    for (size_t i = 0; i < lock->held; i++) {
        if (isOf(&lock->holds[i], owner, length) && excludes(lock->holds[i].mode, mode)) {
            return true;
        }
    }
    return false;
}

bool lockIsPlainOf(const struct fakeLock *lock, const char *owner, size_t length) {
    return lock->held == 1 && lock->holds[0].mode == MODE_EXCLUSIVE &&
           isOf(&lock->holds[0], owner, length);
}

static void countCall(void *context) {
    if (context) {
        ++*(size_t *)context;
    }
}

static void reachHolder(struct cyclesearch *search, const struct fakeHold *hold) {
    if (hold->mode == MODE_EXCLUSIVE) {
        cyclesearchReachAlone(search, hold->owner, hold->length);
    } else {
        cyclesearchReach(search, hold->owner, hold->length);
    }
}

static void reachHolders(struct cyclesearch *search, struct waitqueue *queue, enum lockMode mode,
                         void *context) {
    const struct fakeLock *lock = lockOfQueue(queue);
    countCall(context);
    for (size_t i = 0; i < lock->held; i++) {
        if (excludes(lock->holds[i].mode, mode)) {
            reachHolder(search, &lock->holds[i]);
        }
    }
}

static void reachByRequests(struct cyclesearch *search, struct waitqueue *queue, enum lockMode mode,
                            void *context) {
    const struct fakeLock *lock = lockOfQueue(queue);
    if (lock->held == 1 && lock->holds[0].mode == MODE_EXCLUSIVE) {
        reachHolders(search, queue, mode, context);
        return;
    }
    countCall(context);
    if (cyclesearchMayTake(search, 1)) {
        cyclesearchEachRequest(search, 1);
    }
}

static bool isHolder(struct waitqueue *queue, enum lockMode mode, const struct waitRequest *request,
                     void *context) {
    (void)context;
    return lockIsInTheWay(lockOfQueue(queue), request->owner, request->owner_length, mode);
}

static bool isCountedHolder(struct waitqueue *queue, enum lockMode mode,
                            const struct waitRequest *request, void *context) {
    countCall(context);
    return isHolder(queue, mode, request, context);
}

static bool mayBeHolder(struct waitqueue *queue, enum lockMode mode,
                        const struct waitRequest *request, void *context) {
    (void)queue;
    (void)mode;
    (void)request;
    (void)context;
    return true;
}

struct cyclesearchAsked lockCallbacks(int way, size_t *calls) {
    bool by_holds = way == LOCKS_BY_HOLDS || way == LOCKS_BY_HOLDS_UNPROVEN;
    bool unproven = way == LOCKS_BY_HOLDS_UNPROVEN || way == LOCKS_BY_REQUESTS_UNPROVEN;
    return (struct cyclesearchAsked){.holders = by_holds ? reachHolders : reachByRequests,
                                     .is_holder = isHolder,
                                     .may_be_holder = unproven ? mayBeHolder : isCountedHolder,
                                     .context = calls};
}

struct cyclesearchFound lockSearch(struct waitgraph *graph, const struct waitRequest *asker,
                                   const struct lockSearch *how) {
    const struct cyclesearchAsked callbacks = lockCallbacks(how->way, how->calls);
    const size_t endless = 1000000; /* calls: a search that always begins again is a fault */
    size_t calls = 0;
    cyclesearchBegin(graph, asker, &callbacks, how->most);
    while (!cyclesearchContinue(graph, how->slice > 0 ? how->slice : SIZE_MAX / 2)) {
        assert_true(calls++ < endless);
        if (how->between) {
            how->between(how->data);
        }
    }
    return cyclesearchEnd(graph);
}
