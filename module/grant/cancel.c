/* See cancel.h. */
#include "grant/cancel.h"

#include <stdbool.h>

#include "blocking/drain.h"
#include "common/stats.h"
#include "core/mem.h"
#include "grant/pass.h"
#include "keys/holds.h"
#include "keys/keynames.h"
#include "ledger/acks.h"
#include "queue/cancelled.h"
#include "queue/fairness.h"
#include "queue/waiters.h"
#include "server/server.h"
#include "server/timeslice.h"
#include "waits/contended.h"

/* Waits for more keys than this in total are ended in time slices; a single wait never is. */
#define FEW_KEYS 512

/* Takes into use (blockingkeyUse) every lock whose queue has one of the owner's waits, from `first`
 * on; a wait for several keys is in several queues. Returns how many locks there are. */
static size_t useLocksOf(struct position *first, struct lock **locks) {
    size_t count = 0;
    for (struct position *position = first; position; position = waitqueueNextOfOwner(position)) {
        struct waiter *waiter = waiterOfPosition(position);
        for (size_t i = 0; i < waiter->key_count; i++) {
            struct lock *lock = contendedOfPosition(&waiter->keys[i].position);
            if (!lock->key.in_use) {
                blockingkeyUse(&lock->key);
                locks[count++] = lock;
            }
        }
    }
    return count;
}

static void endAll(RedisModuleCtx *ctx, struct position *first) {
    struct position *next;
    for (struct position *position = first; position; position = next) {
        next = waitqueueNextOfOwner(position);
        statsCount(STATS_CANCELLED);
        waitersEnd(ctx, waiterOfPosition(position), WAITERS_CANCELLED);
    }
}

/* Whether the lock, which has become due, can be handed off here. */
static bool canPass(RedisModuleCtx *ctx, const struct lock *lock) {
    return !timesliceHasEnded() &&
           (!serverIsCluster() || serverMayWriteKey(ctx, lock->key.name) == SERVER_ACCEPTS);
}

/* Ends the use of the lock, and hands it off if it has become due. The drain does that when the
 * time slice has ended. In a cluster it also does when the key of a lock other than the command's
 * may have moved to another node, or may be acquired there: then it redirects the waiters. */
static void lookAgain(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms) {
    bool is_due = lock->key.due;
    if (is_due && canPass(ctx, lock)) {
        passRun(ctx, &lock->key, now_ms);
        return;
    }
    blockingkeyEndUse(ctx, &lock->key);
    if (is_due) {
        drainSetAlarm(ctx, DRAIN_KEYS, 0);
    }
}

/* For how many keys the owner waits, by `first` and its waits behind it; 0: too many to end them in
 * one step. */
static size_t countKeys(struct position *first) {
    size_t count = waiterOfPosition(first)->key_count;
    struct position *position = waitqueueNextOfOwner(first);
    for (; position && count <= FEW_KEYS; position = waitqueueNextOfOwner(position)) {
        count += waiterOfPosition(position)->key_count;
    }
    return position || (count > FEW_KEYS && waitqueueNextOfOwner(first)) ? 0 : count;
}

/* Ends these waits, which are for at most `room` locks, and hands off what they kept from
 * others. */
static void endNow(RedisModuleCtx *ctx, struct position *first, size_t room, int64_t now_ms) {
    struct lock *one = NULL;
    struct lock **locks = room > 1 ? memAlloc(room * sizeof(struct lock *)) : &one;
    size_t count = useLocksOf(first, locks);
    endAll(ctx, first);
    timesliceBegin(); /* one time slice for all */
    for (size_t i = 0; i < count; i++) {
        lookAgain(ctx, locks[i], now_ms);
    }
    timesliceEnd();
    if (room > 1) {
        memFree(locks);
    }
}

static void cancelCancel(RedisModuleCtx *ctx, struct position *first, RedisModuleString *name,
                         const struct release *gives_up) {
    size_t keys = countKeys(first);
    if (keys > 0) {
        endNow(ctx, first, keys, gives_up->now_ms);
    } else {
        cancelledAdd(ctx, name, gives_up->owner);
    }
}

static struct position *findPosition(RedisModuleCtx *ctx, RedisModuleString *name,
                                     RedisModuleString *owner) {
    struct lock *lock = contendedFindHere(ctx, name);
    return lock ? contendedPositionOf(lock, owner) : NULL;
}

/* Whether none of these waits of an owner, from `first` on, is stored in keys. */
static bool areInMemoryOnly(struct position *first) {
    struct position *position = first;
    while (position && position->request->discipline != FAIR) {
        position = waitqueueNextOfOwner(position);
    }
    return first && !position;
}

enum result cancelWaits(RedisModuleCtx *ctx, RedisModuleString *name,
                        const struct release *gives_up, struct outcome *outcome) {
    RedisModuleString *owner = gives_up->owner;
    int64_t now_ms = gives_up->now_ms;
    if (keynamesSidesAreHere(ctx, name)) {
        /* The position may be in the keys but not in memory yet. */
        enum result loaded = fairnessLoad(ctx, name, now_ms);
        if (loaded != RESULT_DONE) {
            return loaded;
        }
    } else if (!areInMemoryOnly(findPosition(ctx, name, owner))) {
        return RESULT_TRY_AGAIN;
    }
    struct position *first = cancelledFirstOther(ctx, name, owner);
    if (first) {
        cancelCancel(ctx, first, name, gives_up);
    }
    const struct holdId id = {RedisModule_GetSelectedDb(ctx), name, owner};
    size_t unreported = acksCancel(ctx, &id);
    if (first || unreported > 0) {
        outcome->count = 1;
        return RESULT_DONE;
    }
    struct holds holds;
    enum holdsKind kind = holdsOpenToRead(&holds, ctx, name, now_ms);
    holdsClose(&holds);
    return kind == HOLDS_WRONG_TYPE ? RESULT_WRONG_TYPE : RESULT_DONE;
}

enum result cancelOrRelease(RedisModuleCtx *ctx, RedisModuleString *name,
                            const struct release *gives_up, struct outcome *outcome) {
    enum result result = cancelWaits(ctx, name, gives_up, outcome);
    if (result != RESULT_DONE || outcome->count > 0) {
        return result;
    }
    result = releaseLock(ctx, name, gives_up, outcome);
    outcome->count = result == RESULT_DONE ? 2 : 0;
    return result == RESULT_NOT_HELD ? RESULT_DONE : result;
}
