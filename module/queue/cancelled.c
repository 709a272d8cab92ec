/* See cancelled.h.
 *
 * Marking each wait would take as many steps as there are waits. Instead a cancellation stores the
 * number of the latest waiter: waiters are numbered in order of arrival, so it covers all up to
 * that number.
 */
#include "queue/cancelled.h"

#include "blocking/drain.h"
#include "common/stats.h"
#include "core/hashmap.h"
#include "core/list.h"
#include "core/mem.h"
#include "server/timeslice.h"
#include "waits/contended.h"

struct cancelled {
    struct link in_all;
    struct mapEntry by_owner;
    int db;
    RedisModuleString *name, *owner;
    uint64_t last; /* the number of the latest waiter that is cancelled */
};

static struct {
    struct list all;
    struct map by_owner;
} state;

size_t cancelledCount(void) {
    return state.all.length;
}

static struct cancelled *cancelledOfEntry(struct mapEntry *entry) {
    return LIST_ELEMENT_OR_NULL(entry, struct cancelled, by_owner);
}

static struct cancelled *nextOfOwner(const struct cancelled *cancelled) {
    return cancelledOfEntry(mapFindNext(&cancelled->by_owner));
}

static struct cancelled *firstOfOwner(const char *owner, size_t length) {
    return cancelledOfEntry(mapFind(&state.by_owner, owner, length));
}

bool cancelledConcerns(const char *owner, size_t length) {
    return firstOfOwner(owner, length);
}

static bool isFor(const struct cancelled *cancelled, int db, RedisModuleString *name) {
    return cancelled->db == db && RedisModule_StringCompare(cancelled->name, name) == 0;
}

/* The cancellation for this lock and owner, or NULL. */
static struct cancelled *cancelledFind(int db, RedisModuleString *name, RedisModuleString *owner) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    struct cancelled *cancelled = firstOfOwner(bytes, length);
    while (cancelled && !isFor(cancelled, db, name)) {
        cancelled = nextOfOwner(cancelled);
    }
    return cancelled;
}

static struct cancelled *cancelledMake(int db, RedisModuleString *name, RedisModuleString *owner) {
    struct cancelled *cancelled = memAlloc(sizeof(*cancelled));
    cancelled->db = db;
    /* Copies: the caller's strings may point into a client's query buffer. */
    cancelled->name = RedisModule_CreateStringFromString(NULL, name);
    cancelled->owner = RedisModule_CreateStringFromString(NULL, owner);
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(cancelled->owner, &length);
    mapAdd(&state.by_owner, &cancelled->by_owner, bytes, length);
    listAddLast(&state.all, &cancelled->in_all);
    featuresBegin(FEATURE_CANCELLATIONS);
    return cancelled;
}

static void cancelledDrop(struct cancelled *cancelled) {
    listRemove(&state.all, &cancelled->in_all);
    mapRemove(&state.by_owner, &cancelled->by_owner);
    RedisModule_FreeString(NULL, cancelled->name);
    RedisModule_FreeString(NULL, cancelled->owner);
    memFree(cancelled);
    featuresEnd(FEATURE_CANCELLATIONS);
}

void cancelledAdd(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner) {
    int db = RedisModule_GetSelectedDb(ctx);
    struct cancelled *cancelled = cancelledFind(db, name, owner);
    if (!cancelled) {
        cancelled = cancelledMake(db, name, owner);
    }
    cancelled->last = waitersLastNumber();
    drainSetAlarm(ctx, DRAIN_CANCELLATIONS, 0);
}

/* ---- whether a wait is cancelled ---- */

static bool covers(const struct cancelled *cancelled, const struct waiter *waiter) {
    bool found = false;
    for (size_t i = 0; waiter->number <= cancelled->last && !found && i < waiter->key_count; i++) {
        found = isFor(cancelled, waiter->db, waiter->keys[i].name);
    }
    return found;
}

bool cancelledHas(const struct waiter *waiter) {
    const struct waitRequest *request = &waiter->request;
    struct cancelled *cancelled = firstOfOwner(request->owner, request->owner_length);
    while (cancelled && !covers(cancelled, waiter)) {
        cancelled = nextOfOwner(cancelled);
    }
    return cancelled;
}

struct position *cancelledFirstOther(RedisModuleCtx *ctx, RedisModuleString *name,
                                     RedisModuleString *owner) {
    int db = RedisModule_GetSelectedDb(ctx);
    const struct lock *lock = contendedFind(db, name);
    const struct cancelled *cancelled = cancelledFind(db, name, owner);
    struct position *position = lock ? contendedPositionOf(lock, owner) : NULL;
    while (position && ((cancelled && waiterOfPosition(position)->number <= cancelled->last) ||
                        cancelledHas(waiterOfPosition(position)))) {
        position = waitqueueNextOfOwner(position);
    }
    return position;
}

/* ---- ending cancelled waits ---- */

static void cancelledEnd(RedisModuleCtx *ctx, struct waiter *waiter) {
    timeslicePieceIsLong(); /* it may be in a thousand queues */
    statsCount(STATS_CANCELLED);
    waitersEnd(ctx, waiter, WAITERS_CANCELLED);
}

bool cancelledFindAndEnd(RedisModuleCtx *ctx, struct waiter *waiter) {
    bool is_cancelled = cancelledHas(waiter);
    if (is_cancelled) {
        cancelledEnd(ctx, waiter);
    }
    return is_cancelled;
}

/* The first wait that is still to be ended, or NULL. Older waits are usually first in the queue. */
static struct waiter *nextOf(const struct cancelled *cancelled) {
    const struct lock *lock = contendedFind(cancelled->db, cancelled->name);
    struct position *position = lock ? contendedPositionOf(lock, cancelled->owner) : NULL;
    while (position && waiterOfPosition(position)->number > cancelled->last) {
        position = waitqueueNextOfOwner(position);
    }
    return position ? waiterOfPosition(position) : NULL;
}

static struct cancelled *cancelledFirst(void) {
    return LIST_ELEMENT_OR_NULL(state.all.first, struct cancelled, in_all);
}

/* At least one in each drain, so that other due work cannot delay them without end. */
void cancelledGoOn(RedisModuleCtx *ctx, int64_t now_ms) {
    (void)now_ms;
    struct cancelled *cancelled;
    bool over = false;
    for (; !over && (cancelled = cancelledFirst()); over = timesliceHasEnded()) {
        struct waiter *waiter = nextOf(cancelled);
        if (waiter) {
            cancelledEnd(ctx, waiter);
        } else {
            cancelledDrop(cancelled);
        }
    }
    if (cancelledFirst()) {
        drainSetAlarm(ctx, DRAIN_CANCELLATIONS, 0);
    }
}

/* Equivalent: what is left would be removed when the server is a master again. */
void cancelledForget(RedisModuleCtx *ctx) {
    (void)ctx;
    struct cancelled *cancelled;
    while ((cancelled = cancelledFirst())) {
        cancelledDrop(cancelled);
    }
}
