/* See fairness.h. */
#include "queue/fairness.h"

#include "common/config.h"
#include "keys/fairqueue.h"
#include "keys/keynames.h"
#include "queue/unwritten.h"
#include "server/timeslice.h"

/* How long the keys are kept after the last time that they are known to be needed. While a client
 * waits without a limit there is no such time: then they are kept this long, and extended when half
 * of it has passed. */
#define KEEP_MS 600000

/* While a slot is being moved the keys are left alone, and checked again after this time. */
#define RETRY_MS 1000

/* A difference up to this does not mean that the end of a quarantine has moved: the clocks differ,
 * or a timer was late. */
#define SAME_MS 100

/* Up to this many positions the server may keep in arrays. */
#define SHORT_QUEUE 4

/* Scores are doubles, which represent integers exactly up to 2^53. A score near that or above is
 * not a ticket of the module: there must be room for the tickets that follow the last one. */
#define LARGEST_TICKET ((INT64_C(1) << 53) - (INT64_C(1) << 40))

/* The sum of two times that are not negative, limited to half of INT64_MAX, which is later than any
 * key has to expire. */
static int64_t later(int64_t time_ms, int64_t by_ms) {
    const int64_t latest_ms = INT64_MAX / 2;
    return time_ms > latest_ms - by_ms ? latest_ms : time_ms + by_ms;
}

/* Records until when the keys are needed now. Returns when they are to expire; `*extend`: that is
 * later than they do. */
static int64_t expiryFor(struct lock *lock, int64_t end_ms, int64_t now_ms, bool *extend) {
    bool forever = end_ms == FAIRQUEUE_NO_END;
    if (forever && lock->fair.refresh_ms == 0) {
        lock->fair.refresh_ms = now_ms + KEEP_MS / 2;
    }
    /* A crash may happen at the end, and a quarantine may follow before the position's reserve
     * begins. */
    int64_t kept_ms = configQuarantineMs() + configFairReserveMs();
    int64_t needed_ms = later(forever ? now_ms + KEEP_MS / 2 : end_ms, kept_ms);
    *extend = needed_ms > lock->fair.expire_ms;
    if (*extend) {
        /* Some more, so that the next waiter need not extend it again. */
        lock->fair.expire_ms = later(needed_ms, KEEP_MS / 2);
    }
    return lock->fair.expire_ms;
}

/* ---- loading ---- */

struct loading {
    RedisModuleCtx *ctx;
    RedisModuleString *name;
    struct lock *lock; /* NULL: not contended yet */
    struct waitersLife life;
};

static void restore(const struct fairposition *position, void *data) {
    struct loading *loading = data;
    if (!loading->lock) {
        loading->lock = contendedFindOrMake(RedisModule_GetSelectedDb(loading->ctx), loading->name);
    }
    struct fairState *fair = &loading->lock->fair;
    if (position->ticket > fair->last_ticket && position->ticket < LARGEST_TICKET) {
        fair->last_ticket = position->ticket;
    }
    waitersRestore(loading->ctx, loading->lock, position, loading->life);
}

/* Reads the positions in the keys into memory, or deletes them if their time has passed. Returns
 * the lock, which is contended if there are any, or `lock`. */
static struct lock *loadPositions(struct fairqueue *fq, RedisModuleString *name, struct lock *lock,
                                  int64_t now_ms) {
    if (fairqueueLength(fq) == 0) {
        return lock;
    }
    if (now_ms >= fairqueueRestoredEnd()) {
        fairqueueClear(fq);
        return lock;
    }
    struct loading loading = {fq->ctx, name, lock, {fairqueueRestoredEnd(), now_ms}};
    const struct fairqueueWalk walk = {FAIRQUEUE_FROM_LAST, INT64_MAX, restore, &loading};
    size_t foreign = fairqueueEach(fq, &walk);
    if (!loading.lock) {
        fairqueueClear(fq); /* no position of any owner */
    } else if (foreign > 0) {
        loading.lock->key.notes |= CONTENDED_OTHER_POSITIONS;
    }
    return loading.lock;
}

/* ---- writing ---- */

/* Makes the server encode the keys as skip lists once the queue is long enough. The conversion
 * costs as much as it saves in a few hand-offs: not worth it for a queue that stays short and soon
 * ends. */
static void growEncoding(struct fairqueue *fq, struct lock *lock) {
    size_t length = fairqueueLength(fq);
    if (length == 0) {
        lock->fair.is_grown = false; /* new keys */
    } else if (length >= SHORT_QUEUE && !lock->fair.is_grown) {
        fairqueueGrowEncoding(fq);
        lock->fair.is_grown = true;
    }
}

/* Writes ticket and end of a position that is not in the keys. */
static void putPosition(struct fairqueue *fq, struct lock *lock, struct waiter *waiter,
                        int64_t now_ms) {
    bool extend;
    growEncoding(fq, lock);
    int64_t end_ms = blockedEndMs(&waiter->client, now_ms);
    int64_t expire_ms = expiryFor(lock, end_ms, now_ms, &extend);
    const struct fairposition position = {waiter->wants.owner, waiter->ticket, end_ms};
    fairqueuePut(fq, &position, expire_ms);
    waiter->placed = true;
    if (extend) {
        fairqueueExpireAt(fq, expire_ms);
    }
}

/* Removes the position of a wait that has ended. Its owner may have another position by now, and
 * the keys identify positions by owner only. */
static void removePosition(struct fairqueue *fq, struct lock *lock, struct waiter *waiter) {
    if (!fairnessFind(lock, waiter->wants.owner)) {
        fairqueueRemove(fq, waiter->wants.owner);
    }
    waiterFree(waiter);
}

/* Brings the position of this waiter in the keys up to date. */
static void writePosition(struct fairqueue *fq, struct lock *lock, struct waiter *waiter,
                          int64_t now_ms) {
    if (waiter->over) {
        removePosition(fq, lock, waiter);
        return;
    }
    if (!waiter->placed) {
        putPosition(fq, lock, waiter, now_ms);
        return;
    }
    bool extend;
    int64_t end_ms = blockedEndMs(&waiter->client, now_ms);
    int64_t expire_ms = expiryFor(lock, end_ms, now_ms, &extend);
    fairqueueSetEnd(fq, waiter->wants.owner, end_ms, expire_ms);
    if (extend) {
        fairqueueExpireAt(fq, expire_ms);
    }
}

/* If a client waits without a limit: extends the expiry of the keys when half of their time has
 * passed. */
static void refresh(struct fairqueue *fq, struct lock *lock, int64_t now_ms) {
    if (!fairnessNeedsRefresh(lock, now_ms)) {
        return;
    }
    lock->fair.refresh_ms = 0;
    if (fairqueueLength(fq) > 0) {
        bool extend;
        fairqueueExpireAt(fq, expiryFor(lock, FAIRQUEUE_NO_END, now_ms, &extend));
    }
}

/* The keys differ from what was written: deletes them, whatever they contain, and marks all
 * positions to be written again, from the head on. */
static void fairnessRewrite(struct fairqueue *fq, struct lock *lock) {
    fairqueueClear(fq);
    unwrittenForget(lock); /* these changes are covered by the ones recorded now */
    struct position *position = waitqueueFirst(&lock->queue);
    for (; position; position = waitqueueNext(position)) {
        if (position->request->discipline == FAIR) {
            unwrittenNoteUnplaced(lock, waiterOfPosition(position));
        }
    }
}

static bool fairnessWriteQueue(struct fairqueue *fq, struct lock *lock, int64_t now_ms) {
    if (blockingkeyTakeNote(&lock->key, CONTENDED_OTHER_POSITIONS)) {
        fairnessRewrite(fq, lock);
    }
    struct waiter *waiter;
    while ((waiter = unwrittenNext(lock))) {
        writePosition(fq, lock, waiter, now_ms);
        if (timesliceHasEnded()) {
            break;
        }
    }
    refresh(fq, lock, now_ms);
    return contendedIsWritten(lock);
}

/* The slot is being moved, and with it the keys, one by one; or a snapshot uses them. The pending
 * changes are kept: the check of all slots has them written once the slot is this node's again, or
 * dropped once it is another node's. */
static void putOff(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms) {
    if (fairnessNeedsRefresh(lock, now_ms)) {
        lock->fair.refresh_ms = now_ms + RETRY_MS; /* not at once: there is no event for the end */
    }
    blockingkeyWatchSlots(ctx);
}

bool fairnessWriteChanges(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms) {
    if (!keynamesSidesAreHere(ctx, lock->key.name)) {
        putOff(ctx, lock, now_ms);
        return true;
    }
    struct fairqueue fq;
    bool written = false;
    fairqueueOpenToWrite(&fq, ctx, lock->key.name, &lock->fair.names);
    if (fq.in_use) {
        lock->is_put_off = true;
        putOff(ctx, lock, now_ms);
    } else {
        written = fairnessWriteQueue(&fq, lock, now_ms);
    }
    fairqueueClose(&fq);
    return written;
}

/* ---- requests ---- */

enum result fairnessOpen(struct fairqueue *fq, RedisModuleCtx *ctx, RedisModuleString *name,
                         int64_t now_ms) {
    struct lock *lock = contendedFindHere(ctx, name);
    fairqueueOpenToWrite(fq, ctx, name, lock ? &lock->fair.names : NULL);
    enum result usable = fairqueueCheck(fq);
    if (usable != RESULT_DONE) {
        fairqueueClose(fq);
        return usable;
    }
    if (!lock || !lock->fair.loaded) {
        lock = loadPositions(fq, name, lock, now_ms);
    }
    if (lock) {
        lock->fair.loaded = true;
        timesliceBegin();
        fairnessWriteQueue(fq, lock,
                           now_ms); /* as far as it gets: the lock stays due for the rest */
        timesliceEnd();
    }
    return RESULT_DONE;
}

enum result fairnessLoad(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms) {
    struct lock *lock = contendedFindHere(ctx, name);
    /* Loading again would change nothing, and would open two keys. */
    if ((lock && lock->fair.loaded) || !keynamesSidesAreHere(ctx, name)) {
        return RESULT_DONE;
    }
    struct fairqueue fq;
    enum result opened = fairnessOpen(&fq, ctx, name, now_ms);
    if (opened == RESULT_DONE) {
        fairqueueClose(&fq);
    }
    return opened == RESULT_KEY_IN_USE ? RESULT_KEY_IN_USE : RESULT_DONE;
}

struct waiter *fairnessFind(struct lock *lock, RedisModuleString *owner) {
    struct position *position = contendedPositionOf(lock, owner);
    while (position && position->request->discipline != FAIR) {
        position = waitqueueNextOfOwner(position);
    }
    return position ? waiterOfPosition(position) : NULL;
}

/* A ticket larger than all others of this queue; the time of arrival in µs, unless the clock has
 * been set back. */
static int64_t nextTicket(struct lock *lock, int64_t now_ms) {
    int64_t by_clock = now_ms * 1000;
    lock->fair.last_ticket =
        by_clock > lock->fair.last_ticket ? by_clock : lock->fair.last_ticket + 1;
    return lock->fair.last_ticket;
}

void fairnessEnter(struct fairqueue *fq, struct lock *lock, struct waiter *waiter, int64_t now_ms) {
    lock->fair.loaded = true; /* a fair request begins with loading */
    if (waiter->ticket == 0) {
        waiter->ticket = nextTicket(lock, now_ms);
    }
    putPosition(fq, lock, waiter, now_ms);
    blockingkeyWatch(fq->ctx, &lock->key, fairnessNextLook(lock), now_ms);
}

bool fairnessFlushed(RedisModuleCtx *ctx, struct lock *lock) {
    struct position *next;
    for (struct position *position = waitqueueFirst(&lock->queue); position; position = next) {
        struct waiter *waiter = waiterOfPosition(position);
        next = waitqueueNext(position);
        if (!waiter->client.bc) {
            waitersEnd(ctx, waiter, WAITERS_CANCELLED);
            if (timesliceHasEnded()) {
                return false;
            }
        }
    }
    if (lock->fair.loaded) {
        lock->key.notes |= CONTENDED_OTHER_POSITIONS;
    }
    return true;
}

static bool isForeseen(const struct lock *lock, struct waiter *waiter, int64_t now_ms) {
    int64_t early_ms = now_ms + configFairReserveMs() - blockedEndMs(&waiter->client, now_ms);
    bool may_end_early = !(lock->key.notes & CONTENDED_RESERVES_BEGIN);
    return early_ms >= -SAME_MS && (may_end_early || early_ms <= SAME_MS);
}

/* Continues where the last time slice ended. */
bool fairnessCountReserves(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms) {
    struct position *position = lock->fair.loaded ? waitqueueFirst(&lock->queue) : NULL;
    for (; position; position = waitqueueNext(position)) {
        struct waiter *waiter = waiterOfPosition(position);
        if (position->order < lock->key.progress) {
            continue;
        }
        lock->key.progress = position->order + 1;
        if (!waiter->client.bc && !isForeseen(lock, waiter, now_ms)) {
            waitersReserve(ctx, waiter);
        }
        if (timesliceHasEnded()) {
            return false;
        }
    }
    lock->key.progress = INT64_MIN;
    return true;
}
