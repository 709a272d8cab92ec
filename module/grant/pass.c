/* The steps of the grant pass.
 *
 *   passHandOff      runs the pass after a command has freed the lock
 *   passAfterTake    runs the pass after an owner has acquired the lock without waiting
 *   passRun          runs the pass after something outside the module may have changed the lock
 *   pass_work        makes the drain call passRun
 *
 * To grant another kind of waiter, change grantIfFits. Rule numbers are those of docs/design.md.
 * Contracts are in pass.h.
 */
#include "grant/pass.h"

#include <stdbool.h>
#include <stddef.h>

#include "blocking/redirect.h"
#include "common/config.h"
#include "common/propagate.h"
#include "common/quarantine.h"
#include "common/stats.h"
#include "core/features.h"
#include "core/rules.h"
#include "grant/holding.h"
#include "grant/lockcheck.h"
#include "grant/multikey.h"
#include "queue/cancelled.h"
#include "queue/fairness.h"
#include "queue/unwritten.h"
#include "queue/waiters.h"
#include "server/timeslice.h"
#include "waits/latches.h"

/* Grants the lock to the waiter, which fits. The waiter is freed. */
static void passTake(struct holds *holds, struct waiter *waiter, enum verdict verdict) {
    struct waitersGranted granted = {.pendingreply =
                                         pendingreplyNew(&waiter->wants.session, holds->now_ms),
                                     .now_ms = holds->now_ms};
    granted.answer = holdingTake(holds, &waiter->wants, verdict, granted.pendingreply);
    if (granted.answer == 0) {
        pendingreplyDrop(granted.pendingreply);
        waitersEnd(holds->ctx, waiter, WAITERS_TOO_MANY_HOLDS);
    } else {
        waitersGrant(holds->ctx, waiter, &granted);
    }
}

/* Whether the side keys that the grant writes are here and can be written. If they are not,
 * `*has_ended` is whether the wait has ended with an error. */
static bool passSidesAreReady(struct holds *holds, struct waiter *waiter, bool *has_ended) {
    if (!holdsSidesAreHere(holds)) {
        waitersEnd(holds->ctx, waiter, WAITERS_TRY_AGAIN);
        *has_ended = true;
        return false;
    }
    enum result sides = holdingCheckSides(holds, &waiter->wants);
    if (sides == RESULT_KEY_IN_USE) {
        contendedOfPosition(&waiter->keys[0].position)->is_put_off = true;
    }
    *has_ended = sides == RESULT_NO_TOKEN;
    if (*has_ended) {
        waitersEnd(holds->ctx, waiter, WAITERS_NO_TOKEN);
    }
    return sides != RESULT_KEY_IN_USE && sides != RESULT_NO_TOKEN;
}

/* Grants the lock to the waiter if it fits now. Returns whether the waiter is gone. */
static bool grantIfFits(struct holds *holds, struct waiter *waiter) {
    if (cancelledEndIf(holds->ctx, waiter)) {
        return true;
    }
    if (!waiter->client.bc) {
        return false; /* a reserved position: its owner has to request it again */
    }
    if (waiter->request.discipline == MULTIKEY) {
        return multikeyGrant(holds, waiter);
    }
    bool has_ended;
    enum verdict verdict = holdingDecide(holds, &waiter->wants);
    if (!rulesFits(verdict)) {
        return false;
    }
    if (holdingHasSides(&waiter->wants) && !passSidesAreReady(holds, waiter, &has_ended)) {
        return has_ended;
    }
    passTake(holds, waiter, verdict);
    return true;
}

/* Whether rule 2 puts the wait, which is for one key, at the head. */
static bool isUpgrade(struct holds *holds, const struct waiter *waiter) {
    return holdingDecide(holds, &waiter->wants) == VERDICT_UPGRADE;
}

/* What is known about an owner's waits for one key, of which it may have thousands: all that make
 * the same request fit, or none does, until one of them is granted. */
enum unfit { UNFIT_UNKNOWN, UNFIT_WAITS, UNFIT_UPGRADE };

struct unfitWaits {
    enum unfit by_request[MODE_COUNT][2][2]; /* by mode, by ONCE, and by FENCED */
    bool knows_others;
    int64_t others_from; /* the order of the first position of another owner */
};

/* Whether no other owner has a position ahead of this one. */
static bool isBeforeOthers(const struct position *position, struct unfitWaits *unfit) {
    if (!unfit->knows_others) {
        const struct waitRequest *request = position->request;
        size_t own = waitqueueCountOf(position->queue, request->owner, request->owner_length);
        bool has_others = own < position->queue->positions.length;
        const struct position *first = has_others ? waitqueueFirst(position->queue) : NULL;
        while (first && waitqueueSameOwner(first->request, request)) {
            first = waitqueueNext(first);
        }
        unfit->others_from = first ? first->order : INT64_MAX;
        unfit->knows_others = true;
    }
    return position->order < unfit->others_from;
}

/* Grants the wait if it fits, or moves it to the head if it is an upgrade. Returns whether it has
 * ended. */
static bool grantOrNote(struct holds *holds, struct position *position, struct unfitWaits *unfit) {
    struct waiter *waiter = waiterOfPosition(position);
    bool once = waiter->request.once;
    enum unfit *of_kind = &unfit->by_request[position->mode][once][waiter->wants.fenced];
    if (*of_kind == UNFIT_UNKNOWN) {
        if (grantIfFits(holds, waiter)) {
            return true;
        }
        *of_kind = isUpgrade(holds, waiter) ? UNFIT_UPGRADE : UNFIT_WAITS;
    }
    if (*of_kind == UNFIT_UPGRADE && !isBeforeOthers(position, unfit)) {
        waitersMoveFirst(holds->ctx, position);
    }
    return false;
}

/* One wait of an owner that holds the lock: decided by rule 1 alone, and if it does not fit it
 * waits at the head (rule 2). A position that was reserved for the owner has served its purpose.
 * Returns whether the wait has ended. */
static bool lookAtReentry(struct holds *holds, struct position *position,
                          struct unfitWaits *unfit) {
    struct waiter *waiter = waiterOfPosition(position);
    if (!waiter->client.bc) {
        waitersEnd(holds->ctx, waiter, WAITERS_CANCELLED);
        return true;
    }
    if (waiter->request.discipline == MULTIKEY) {
        return grantIfFits(holds, waiter); /* it keeps the same order in all queues */
    }
    bool granted = grantOrNote(holds, position, unfit);
    if (granted) {
        *unfit = (struct unfitWaits){0};
    }
    return granted;
}

/* One wait of an owner that has `own` permits. An owner that has permits, or waits for some, waits
 * like any other; but with ONCE it may have enough now. Returns whether the wait has ended. */
static bool lookAtRepeat(struct holds *holds, struct position *position, int64_t own) {
    struct waiter *waiter = waiterOfPosition(position);
    return position->mode == MODE_SEMAPHORE && waiter->wants.lock.once &&
           waiter->wants.lock.permits.count <= own && grantIfFits(holds, waiter);
}

/* One wait of an owner that holds the lock, and `permits` permits if it is a semaphore. Returns
 * whether the wait has ended. */
static bool lookAtOwn(struct holds *holds, struct position *position, int64_t permits,
                      struct unfitWaits *unfit) {
    if (holds->kind == HOLDS_SEMAPHORE) {
        return lookAtRepeat(holds, position, permits);
    }
    return position->mode != MODE_SEMAPHORE && lookAtReentry(holds, position, unfit);
}

static int64_t permitsOf(struct holds *holds, RedisModuleString *owner) {
    return holds->kind == HOLDS_SEMAPHORE ? holdsCount(holds, owner) : 0;
}

/* Whether a hold may make other waits of its owner fit: with permits only where a wait uses
 * ONCE. */
static bool mayReenter(const struct holds *holds, const struct lock *lock) {
    return holds->kind != HOLDS_SEMAPHORE || lock->queue.once > 0;
}

/* The owner has acquired a hold: checks its other waits here, on other connections. Returns false
 * if the time slice ended first. Then at least one wait has ended, so that waits that do not fit,
 * and are checked again, cannot use up every time slice. */
static bool grantReentries(struct holds *holds, struct lock *lock, RedisModuleString *owner) {
    if (!mayReenter(holds, lock)) {
        return true;
    }
    int64_t permits = permitsOf(holds, owner);
    struct unfitWaits unfit = {0};
    struct position *next, *position = contendedPositionOf(lock, owner);
    for (; position; position = next) {
        next = waitqueueNextOfOwner(position);
        if (lookAtOwn(holds, position, permits, &unfit) && next && timesliceHasEnded()) {
            return false;
        }
    }
    return true;
}

/* The same after a grant to an owner that has other waits here. The grant may have used up the time
 * slice: then that grant is the wait that has to end. */
static bool grantMore(struct holds *holds, struct lock *lock, RedisModuleString *owner) {
    bool is_cut = mayReenter(holds, lock) && timesliceHasEnded();
    return !is_cut && grantReentries(holds, lock, owner);
}

/* Has the drain check for holders among all waiters, from the first on. */
static void lookAtAllAgain(struct lock *lock) {
    lock->key.notes |= BLOCKINGKEY_EDITED;
    lock->key.progress = INT64_MIN;
    contendedOwnWaitsLeft(lock);
}

/* The next position that may be granted, or NULL. */
static struct position *nextToGrant(const struct lock *lock) {
    struct position *candidate = waitqueueFirstCandidate(&lock->queue);
    return candidate && waitqueueIsNext(candidate) ? candidate : NULL;
}

/* Grants waiters from the head on, as long as they fit, each with its owner's other waits here.
 * Goes on behind readers that turn out to wait for another of their keys. Returns false if the time
 * slice ended first. */
static bool grantFromHead(struct holds *holds, struct lock *lock) {
    struct position *next;
    while ((next = nextToGrant(lock))) {
        struct waiter *waiter = waiterOfPosition(next);
        if (!cancelledEndIf(holds->ctx, waiter)) {
            RedisModuleString *owner = waiter->wants.owner;
            RedisModule_RetainString(NULL, owner); /* outlives the waiter */
            bool granted = grantIfFits(holds, waiter);
            bool is_cut =
                granted && contendedPositionOf(lock, owner) && !grantMore(holds, lock, owner);
            RedisModule_FreeString(NULL, owner);
            if (is_cut) {
                lookAtAllAgain(lock); /* the owner's other waits are still to be checked */
            }
            if (is_cut || (!granted && !next->is_aside)) {
                return !granted;
            }
        }
        /* All that wait now are other owners: the holder's own waits have been checked. */
        if (holds->kind == HOLDS_PLAIN) {
            return true;
        }
        if (timesliceHasEnded()) {
            return false;
        }
    }
    return true;
}

/* The end of every use of a lock in memory: brings the keys up to date and sets the timer for the
 * next check. What the time slice was too short for is continued by the drain. What a key in use
 * prevents is tried again after a while. */
static void passSettle(struct holds *holds, struct lock *lock, bool done) {
    /* Positions that a flush has deleted are written again only when it is known which of them have
     * ended. */
    bool flush_continues = !done && (lock->key.notes & BLOCKINGKEY_FLUSHED);
    bool written = !flush_continues && fairnessWriteDown(holds->ctx, lock, holds->now_ms);
    bool is_put_off = lock->is_put_off || holds->kind == HOLDS_IN_USE;
    blockingkeyClearDue(&lock->key);
    lock->is_put_off = false;
    lock->is_cut = !done || !written || is_put_off;
    int64_t end_ms = holdsNextEnd(holds), fair_ms = fairnessNextLook(lock);
    int64_t look_ms = end_ms < fair_ms ? end_ms : fair_ms;
    blockingkeyWatch(holds->ctx, &lock->key, look_ms, holds->now_ms);
    lockcheckAfterPass(holds, lock, look_ms);
    if (is_put_off) {
        blockingkeyWatchInUse(holds->ctx, &lock->key, holds->now_ms);
    } else if (lock->is_cut) {
        lock->key.in_use = false;
        blockingkeyMarkDue(holds->ctx, &lock->key);
        return;
    }
    blockingkeyEndUse(holds->ctx, &lock->key);
}

/* ---- holders that wait ---- */

/* Up to this many holders are checked whether they wait here; if there are more, each waiter is
 * checked whether it holds the lock. */
#define FEW_HOLDERS 64

struct reentering {
    struct lock *lock;
    size_t count;
    RedisModuleString *owners[FEW_HOLDERS + 1]; /* holders that also wait here */
};

static void findReentering(const struct holder *holder, void *data) {
    struct reentering *found = data;
    if (found->count <= FEW_HOLDERS && contendedPositionOf(found->lock, holder->owner)) {
        found->owners[found->count++] = RedisModule_CreateStringFromString(NULL, holder->owner);
    }
}

/* First finds them, then grants: a grant writes the key, which must not be done while it is
 * scanned. */
static bool grantToFewHolders(struct holds *holds, struct lock *lock) {
    struct reentering found = {.lock = lock};
    bool done = true;
    holdsEach(holds, findReentering, &found);
    for (size_t i = 0; i < found.count; i++) {
        done = done && grantReentries(holds, lock, found.owners[i]);
        RedisModule_FreeString(NULL, found.owners[i]);
    }
    return done;
}

/* Continues where the last time slice ended: all positions ahead of that have been checked. */
static bool grantToWaitersWhoHold(struct holds *holds, struct lock *lock) {
    struct position *next;
    for (struct position *position = waitqueueFirst(&lock->queue); position; position = next) {
        next = waitqueueNext(position);
        if (position->order < lock->key.progress) {
            continue;
        }
        lock->key.progress = position->order + 1;
        RedisModuleString *owner = waiterOfPosition(position)->wants.owner;
        if (holdingIsHeld(holds, owner)) {
            struct unfitWaits unfit = {.knows_others = true, .others_from = INT64_MIN};
            lookAtOwn(holds, position, permitsOf(holds, owner), &unfit);
        }
        if (next && timesliceHasEnded()) {
            return false;
        }
    }
    return true;
}

/* Another client may have written owners into the key that wait in the middle of the queue. Returns
 * false if the time slice ended before all were found. */
static bool grantToHolders(struct holds *holds, struct lock *lock) {
    bool has_owners = holds->kind == HOLDS_PLAIN || holds->kind == HOLDS_READ_WRITE ||
                      holds->kind == HOLDS_SEMAPHORE;
    if (!has_owners || !mayReenter(holds, lock)) {
        return true;
    }
    return holdsFieldCount(holds) > FEW_HOLDERS ? grantToWaitersWhoHold(holds, lock)
                                                : grantToFewHolders(holds, lock);
}

/* The only holder of a read-write lock may wait here to write, although the head of the queue does
 * not fit: to write several keys, anywhere in the queue, because its wait keeps its place; or
 * behind its own wait for another kind of lock, which does not fit as long as it holds this one.
 * Returns false if the time slice ended first. */
static bool grantToOnlyHolder(struct holds *holds, struct lock *lock) {
    const size_t most_fields = 3; /* the mode, and both holds of one owner */
    const struct position *head = waitqueueFirst(&lock->queue);
    bool is_of_kind = !head || head->mode == MODE_WRITE || head->mode == MODE_READ;
    if (holds->kind != HOLDS_READ_WRITE || (lock->queue.multikey == 0 && is_of_kind) ||
        holdsFieldCount(holds) > most_fields) {
        return true;
    }
    return grantToFewHolders(holds, lock);
}

/* ---- the pass ---- */

/* The pass, after what has happened to the lock since the last one. Clears all flags, except those
 * whose work is not finished; during a quarantine it clears only those that let nobody in. Returns
 * false if the time slice ended first, or the lock is in use. */
static bool passOver(struct holds *holds, struct lock *lock) {
    if (holds->kind == HOLDS_SEMAPHORE) {
        holdsPrune(holds);
    }
    if (holds->kind == HOLDS_MOVING) {
        contendedOwnWaitsSeen(lock); /* for searches: a slot may be moving without end */
        return true;                 /* the flags stay until the slot is this node's again */
    }
    if (holds->kind == HOLDS_IN_USE) {
        return false;
    }
    if ((lock->key.notes & BLOCKINGKEY_FLUSHED) && !fairnessFlushed(holds->ctx, lock)) {
        return false;
    }
    blockingkeyTakeNote(&lock->key, BLOCKINGKEY_FLUSHED);
    if (blockingkeyTakeNote(&lock->key, BLOCKINGKEY_EXPIRED)) {
        statsCount(STATS_LEASE_ENDS);
        propagateEvent(holds->ctx, holds->name, "lock.expired");
    }
    if (quarantineKeeps(holds->ctx, holds->now_ms)) {
        return true; /* its end sets the flags for those that may fit then */
    }
    if ((lock->key.notes & (CONTENDED_RESERVES_BEGIN | CONTENDED_RESERVES_CONFIGURED)) &&
        !fairnessCountReserves(holds->ctx, lock, holds->now_ms)) {
        return false;
    }
    blockingkeyTakeNote(&lock->key, CONTENDED_RESERVES_BEGIN | CONTENDED_RESERVES_CONFIGURED);
    if ((lock->key.notes & BLOCKINGKEY_EDITED) && !grantToHolders(holds, lock)) {
        return false;
    }
    blockingkeyTakeNote(&lock->key, BLOCKINGKEY_EDITED);
    contendedOwnWaitsSeen(lock);
    return holds->kind == HOLDS_WRONG_TYPE ||
           (grantToOnlyHolder(holds, lock) && grantFromHead(holds, lock));
}

void passRun(RedisModuleCtx *ctx, struct blockingkey *key, int64_t now_ms) {
    struct lock *lock = contendedOfKey(key);
    struct holds holds;
    timesliceBegin();
    blockingkeyUse(&lock->key);
    holdsOpenToWrite(&holds, ctx, lock->key.name, now_ms);
    bool done = passOver(&holds, lock);
    passSettle(&holds, lock, done);
    holdsClose(&holds);
    timesliceEnd();
}

static void passHandOffLock(struct holds *holds, struct lock *lock) {
    timesliceBegin();
    if (timesliceHasEnded()) {
        blockingkeyMarkDue(holds->ctx, &lock->key); /* one of many that a command frees */
    } else {
        blockingkeyUse(&lock->key);
        bool done = passOver(holds, lock);
        passSettle(holds, lock, done);
    }
    timesliceEnd();
}

void passHandOff(struct holds *holds) {
    if (featuresInUse()) {
        struct lock *lock =
            featuresHas(FEATURE_WAITERS) ? contendedFindHere(holds->ctx, holds->name) : NULL;
        if (lock) {
            passHandOffLock(holds, lock);
        }
        latchesChanged(holds->ctx, holds->name);
    }
    if (holds->kind == HOLDS_FREE) {
        propagateFreeForRedisson(holds->ctx, holds->name);
    }
}

bool passIsNeeded(void) {
    return featuresInUse() || configRedissonInterop();
}

/* Whether a waiter may fit although the owner has just acquired the lock: because of expired
 * permits of a semaphore, of a lease that has just expired, or of something else that is still to
 * be checked. */
static bool mayFitNow(const struct holds *holds, const struct lock *lock) {
    bool is_late = blockingkeyWatchedAt(&lock->key) <= holds->now_ms;
    return lock->key.due || is_late || holds->kind == HOLDS_SEMAPHORE;
}

void passAfterTake(struct holds *holds, RedisModuleString *owner) {
    struct lock *lock = contendedFindHere(holds->ctx, holds->name);
    if (!lock) {
        return;
    }
    bool was_cut = lock->is_cut; /* then the drain continues it, in its own time slices */
    timesliceBegin();
    blockingkeyUse(&lock->key);
    bool done = grantReentries(holds, lock, owner);
    if (!done) {
        lookAtAllAgain(lock);
    } else if (mayFitNow(holds, lock) && !was_cut) {
        done = passOver(holds, lock);
    }
    passSettle(holds, lock, done && !was_cut);
    timesliceEnd();
}

/* ---- for the drain ---- */

static void passSendOn(RedisModuleCtx *ctx, struct lock *lock, RedisModuleString *error) {
    struct position *position;
    bool over = false;
    while ((position = waitqueueFirst(&lock->queue)) && !over) {
        if (cancelledEndIf(ctx, waiterOfPosition(position))) {
            /* cancelled: its client is not redirected */
        } else if (error) {
            waitersEndRedirected(ctx, waiterOfPosition(position), error);
        } else {
            waitersEnd(ctx, waiterOfPosition(position), WAITERS_TRY_AGAIN);
        }
        over = timesliceHasEnded();
    }
}

/* Pending changes of the fair queue are dropped: the keys are another node's now. */
static void passRedirect(RedisModuleCtx *ctx, struct blockingkey *key) {
    struct lock *lock = contendedOfKey(key);
    RedisModuleString *error = redirectFind(ctx, key->name);
    blockingkeyUse(key);
    passSendOn(ctx, lock, error);
    unwrittenForget(lock);
    blockingkeyEndUse(ctx, key); /* if some are left, it is still due */
}

/* The server has become a replica: it has replied to all that waited, and reserved positions are
 * now kept by the master. The new role has made every lock due. */
static void passForget(RedisModuleCtx *ctx, struct blockingkey *key) {
    waitersForgetDetached(ctx, contendedOfKey(key));
}

const struct blockingkeyWork pass_work = {passRun, passRedirect, passForget, .reads_only = false};
