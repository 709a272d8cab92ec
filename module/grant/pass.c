/* The grant pass (rule 4 of docs/design.md): letting in those waiters of a lock that fit now. There
 * is one, for every cause: a second way to hand a lock off is a bug.
 *
 *   passHandOff      a command has just freed the lock
 *   passAfterTake    an owner has just taken it past the queue
 *   passRun          something outside may have changed it
 *   pass_work        the drain's way to the last one
 *
 * To let another kind of waiter in: grantIfFits. Rule numbers are those of docs/design.md. Contracts
 * are in pass.h.
 */
#include "grant/pass.h"

#include <stdbool.h>
#include <stddef.h>

#include "blocking/redirect.h"
#include "core/rules.h"
#include "grant/holding.h"
#include "grant/lockcheck.h"
#include "grant/multikey.h"
#include "server/effects.h"
#include "server/quarantine.h"
#include "server/stats.h"
#include "server/turn.h"
#include "waits/cancelled.h"
#include "waits/fairness.h"
#include "waits/latches.h"
#include "waits/unwritten.h"
#include "waits/waiters.h"

enum passProgress {
    PASS_GOES_ON,
    PASS_IS_DONE, /* nobody else fits */
    PASS_IS_CUT   /* the turn is over in the middle of a grant's consequences */
};

/* Gives the lock to the waiter, whom it fits. The waiter is gone. */
static void take(struct holds *holds, struct waiter *waiter, enum verdict verdict) {
    struct waitersGranted granted = {.inflight = inflightNew(&waiter->wants.session, holds->now_ms),
                                     .now_ms = holds->now_ms};
    granted.answer = holdingTake(holds, &waiter->wants, verdict, granted.inflight);
    if (granted.answer == 0) {
        inflightDrop(granted.inflight);
        waitersEnd(holds->ctx, waiter, WAITERS_TOO_MANY_HOLDS);
    } else {
        waitersGrant(holds->ctx, waiter, &granted);
    }
}

/* Gives the lock to the waiter if it fits now. Returns whether the waiter is gone. */
static bool grantIfFits(struct holds *holds, struct waiter *waiter) {
    if (cancelledEndIf(holds->ctx, waiter)) {
        return true;
    }
    if (!waiter->client.bc) {
        return false; /* a reserved position: its owner has to come back for it */
    }
    if (waiter->request.discipline == MULTIKEY) {
        return multikeyGrant(holds, waiter);
    }
    enum verdict verdict = holdingDecide(holds, &waiter->wants);
    if (!rulesFits(verdict)) {
        return false;
    }
    if (holdingHasSides(&waiter->wants) && !holdsSidesAreHere(holds)) {
        waitersEnd(holds->ctx, waiter, WAITERS_TRY_AGAIN);
        return true;
    }
    enum result sides = holdingCheckSides(holds, &waiter->wants);
    if (sides == RESULT_KEY_IN_USE) {
        contendedOfPosition(&waiter->keys[0].position)->is_put_off = true;
        return false;
    }
    if (sides == RESULT_NO_TOKEN) {
        waitersEnd(holds->ctx, waiter, WAITERS_NO_TOKEN);
        return true;
    }
    take(holds, waiter, verdict);
    return true;
}

/* Whether rule 2 puts the wait at the head. Those for several keys keep one order in all queues. */
static bool isUpgrade(struct holds *holds, const struct waiter *waiter) {
    return waiter->request.discipline != MULTIKEY &&
           holdingDecide(holds, &waiter->wants) == VERDICT_UPGRADE;
}

/* What was found out of an owner's waits for one key: those that ask for the same fit all, or none,
 * until one of them is granted. An owner may have thousands of them. */
enum unfit { UNFIT_UNKNOWN, UNFIT_WAITS, UNFIT_UPGRADE };

struct unfitWaits {
    enum unfit by_request[MODE_COUNT][2][2]; /* by mode, by ONCE, and by FENCED */
    bool knows_others;
    int64_t others_from; /* the order of the first position of another owner */
};

/* Whether no other owner stands before this position. */
static bool isBeforeOthers(const struct position *position, struct unfitWaits *unfit) {
    if (!unfit->knows_others) {
        const struct request *request = position->request;
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

/* Returns whether the wait is over. */
static bool grantOrNote(struct holds *holds, struct waiter *waiter, struct unfitWaits *unfit) {
    const struct request *request = &waiter->request;
    enum unfit *of_kind = &unfit->by_request[request->mode][request->once][waiter->wants.fenced];
    if (*of_kind == UNFIT_UNKNOWN) {
        if (grantIfFits(holds, waiter)) {
            return true;
        }
        *of_kind = isUpgrade(holds, waiter) ? UNFIT_UPGRADE : UNFIT_WAITS;
    }
    if (*of_kind == UNFIT_UPGRADE && !isBeforeOthers(&waiter->keys[0].position, unfit)) {
        waitersMoveFirst(waiter);
    }
    return false;
}

/* One of the waits of an owner that holds the lock: decided by rule 1 alone, and what has to wait
 * still waits at the head (rule 2). A position that was kept for the owner has served its purpose.
 * Returns whether it is over. */
static bool lookAtReentry(struct holds *holds, struct position *position,
                          struct unfitWaits *unfit) {
    struct waiter *waiter = waiterOfPosition(position);
    if (!waiter->client.bc) {
        waitersEnd(holds->ctx, waiter, WAITERS_CANCELLED);
        return true;
    }
    if (waiter->request.discipline == MULTIKEY) {
        return grantIfFits(holds, waiter);
    }
    bool granted = grantOrNote(holds, waiter, unfit);
    if (granted) {
        *unfit = (struct unfitWaits){0};
    }
    return granted;
}

/* One of the waits of an owner that has so many permits. Who has permits, or waits for some, waits
 * as everybody; but by ONCE it may have them now. Returns whether it is over. */
static bool lookAtRepeat(struct holds *holds, struct position *position, int64_t own) {
    struct waiter *waiter = waiterOfPosition(position);
    return waiter->request.mode == MODE_SEMAPHORE && waiter->wants.asks.once &&
           waiter->wants.asks.permits.count <= own && grantIfFits(holds, waiter);
}

/* One of the waits of an owner that holds the lock, and of permits so many. Returns whether it is
 * over. */
static bool lookAtOwn(struct holds *holds, struct position *position, int64_t permits,
                      struct unfitWaits *unfit) {
    if (holds->shape == HOLDS_SEMAPHORE) {
        return lookAtRepeat(holds, position, permits);
    }
    return waiterOfPosition(position)->request.mode != MODE_SEMAPHORE &&
           lookAtReentry(holds, position, unfit);
}

static int64_t permitsOf(struct holds *holds, RedisModuleString *owner) {
    return holds->shape == HOLDS_SEMAPHORE ? holdsCount(holds, owner) : 0;
}

/* Whether a hold may let its owner in elsewhere here: permits only where somebody waits by ONCE. */
static bool mayReenter(const struct holds *holds, const struct lock *lock) {
    return holds->shape != HOLDS_SEMAPHORE || lock->queue.once > 0;
}

/* The owner has come by a hold: looks at whatever else it waits for here, on other connections.
 * Returns false if the turn was over first; then at least one wait is over, so that those that do
 * not fit, and are looked at again, cannot keep it from the others. */
static bool grantReentries(struct holds *holds, struct lock *lock, RedisModuleString *owner) {
    if (!mayReenter(holds, lock)) {
        return true;
    }
    int64_t permits = permitsOf(holds, owner);
    struct unfitWaits unfit = {0};
    struct position *next, *position = contendedPositionOf(lock, owner);
    for (; position; position = next) {
        next = waitqueueNextOfOwner(position);
        if (lookAtOwn(holds, position, permits, &unfit) && next && turnIsOver()) {
            return false;
        }
    }
    return true;
}

/* The same after a grant, which may have used up the time slice: it was the one that has to be. */
static bool grantMore(struct holds *holds, struct lock *lock, RedisModuleString *owner) {
    bool is_cut = mayReenter(holds, lock) && contendedPositionOf(lock, owner) && turnIsOver();
    return !is_cut && grantReentries(holds, lock, owner);
}

/* Gives the lock to the waiter at the head, if it fits, and lets in what else its owner waits for
 * here. */
static enum passProgress grantHead(struct holds *holds, struct lock *lock, struct waiter *waiter) {
    if (cancelledEndIf(holds->ctx, waiter)) {
        return PASS_GOES_ON;
    }
    RedisModuleString *owner = waiter->wants.owner;
    RedisModule_RetainString(NULL, owner); /* outlives the waiter */
    enum passProgress progress = PASS_IS_DONE;
    if (grantIfFits(holds, waiter)) {
        progress = grantMore(holds, lock, owner) ? PASS_GOES_ON : PASS_IS_CUT;
    }
    RedisModule_FreeString(NULL, owner);
    return progress;
}

/* Has the drain look for holders among all waiters, from the first on. */
static void lookAtAllAgain(struct lock *lock) {
    lock->key.notes |= WAITEDKEY_EDITED;
    lock->key.progress = INT64_MIN;
    contendedOwnWaitsLeft(lock);
}

/* Lets waiters in from the head, as long as they fit. Returns false if the turn was over first. */
static bool grantFromHead(struct holds *holds, struct lock *lock) {
    struct position *head;
    while ((head = waitqueueFirst(&lock->queue))) {
        switch (grantHead(holds, lock, waiterOfPosition(head))) {
        case PASS_IS_DONE:
            return true;
        case PASS_IS_CUT:
            lookAtAllAgain(lock); /* the owner's other waits are left */
            return false;
        case PASS_GOES_ON:
            break;
        }
        /* Whoever waits now is another owner: the holder's own waits have been looked at. */
        if (holds->shape == HOLDS_PLAIN) {
            return true;
        }
        if (turnIsOver()) {
            return false;
        }
    }
    return true;
}

/* What every use of a lock in memory ends with: the keys are as memory is, and the next look is
 * set. What the turn was too short for, the drain goes on with; what a key in use is in the way of
 * is tried again after a while. */
static void settle(struct holds *holds, struct lock *lock, bool done) {
    /* What a flush took away is not written again position by position before it is known who is
     * over. */
    bool flush_goes_on = !done && (lock->key.notes & WAITEDKEY_FLUSHED);
    bool written = !flush_goes_on && fairnessWriteDown(holds->ctx, lock, holds->now_ms);
    bool is_put_off = lock->is_put_off || holds->shape == HOLDS_IN_USE;
    waitedkeyClearDue(&lock->key);
    lock->is_put_off = false;
    lock->is_cut = !done || !written || is_put_off;
    int64_t end_ms = holdsNextEnd(holds), fair_ms = fairnessNextLook(lock);
    int64_t look_ms = end_ms < fair_ms ? end_ms : fair_ms;
    waitedkeyWatch(holds->ctx, &lock->key, look_ms, holds->now_ms);
    lockcheckAfterPass(holds, lock, look_ms);
    if (is_put_off) {
        waitedkeyWatchInUse(holds->ctx, &lock->key, holds->now_ms);
    } else if (lock->is_cut) {
        lock->key.in_use = false;
        waitedkeyMarkDue(holds->ctx, &lock->key);
        return;
    }
    waitedkeyEndUse(holds->ctx, &lock->key);
}

/* ---- a holder who waits ---- */

/* Up to so many holders are asked whether they wait here; of more it is each waiter that is asked
 * whether it holds the lock. */
#define FEW_HOLDERS 64

struct reentering {
    struct lock *lock;
    size_t count;
    RedisModuleString *owners[FEW_HOLDERS + 1]; /* holders who wait here too */
};

static void findReentering(const struct holder *holder, void *data) {
    struct reentering *found = data;
    if (found->count <= FEW_HOLDERS && contendedPositionOf(found->lock, holder->owner)) {
        found->owners[found->count++] = RedisModule_CreateStringFromString(NULL, holder->owner);
    }
}

/* First found, then granted: a grant writes the key, which is not to be done while it is
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

/* Goes on where the last turn ended: whatever stands before that has been looked at. */
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
        if (next && turnIsOver()) {
            return false;
        }
    }
    return true;
}

/* Somebody else may have written owners into the key that wait in the middle of the queue. Returns
 * false if the turn was over before all were found. */
static bool grantToHolders(struct holds *holds, struct lock *lock) {
    bool has_owners = holds->shape == HOLDS_PLAIN || holds->shape == HOLDS_READ_WRITE ||
                      holds->shape == HOLDS_SEMAPHORE;
    if (!has_owners || !mayReenter(holds, lock)) {
        return true;
    }
    return holdsFieldCount(holds) > FEW_HOLDERS ? grantToWaitersWhoHold(holds, lock)
                                                : grantToFewHolders(holds, lock);
}

/* ---- the pass ---- */

/* The pass itself, with what has happened to the lock since the last one. Works all notes off, but
 * those that it says are to be worked on still; in a quarantine those that let nobody in. Returns
 * false if the turn was over first, or the lock is in use. */
static bool passOver(struct holds *holds, struct lock *lock) {
    holdsPrune(holds);
    if (holds->shape == HOLDS_MOVING) {
        contendedOwnWaitsSeen(lock); /* for searches: a slot may be on the move for ever */
        return true;                 /* the notes are for when it is ours again */
    }
    if (holds->shape == HOLDS_IN_USE) {
        return false;
    }
    if ((lock->key.notes & WAITEDKEY_FLUSHED) && !fairnessFlushed(holds->ctx, lock)) {
        return false;
    }
    waitedkeyTakeNote(&lock->key, WAITEDKEY_FLUSHED);
    if (waitedkeyTakeNote(&lock->key, WAITEDKEY_EXPIRED)) {
        statsCount(STATS_LEASE_ENDS);
        effectsEvent(holds->ctx, holds->name, "lock.expired");
    }
    if (quarantineKeeps(holds->ctx, holds->now_ms)) {
        return true; /* who could be let in is noted when it is over */
    }
    if ((lock->key.notes & (CONTENDED_RESERVES_BEGIN | CONTENDED_RESERVES_CONFIGURED)) &&
        !fairnessCountReserves(holds->ctx, lock, holds->now_ms)) {
        return false;
    }
    waitedkeyTakeNote(&lock->key, CONTENDED_RESERVES_BEGIN | CONTENDED_RESERVES_CONFIGURED);
    if ((lock->key.notes & WAITEDKEY_EDITED) && !grantToHolders(holds, lock)) {
        return false;
    }
    waitedkeyTakeNote(&lock->key, WAITEDKEY_EDITED);
    contendedOwnWaitsSeen(lock);
    return holds->shape == HOLDS_WRONG_TYPE || grantFromHead(holds, lock);
}

void passRun(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms) {
    struct holds holds;
    turnBegin();
    waitedkeyUse(&lock->key);
    holdsOpenToWrite(&holds, ctx, lock->key.name, now_ms);
    bool done = passOver(&holds, lock);
    settle(&holds, lock, done);
    holdsClose(&holds);
    turnEnd();
}

static struct lock *contendedLockOf(struct holds *holds) {
    return contendedFind(RedisModule_GetSelectedDb(holds->ctx), holds->name);
}

static void handOff(struct holds *holds, struct lock *lock) {
    turnBegin();
    if (turnIsOver()) {
        waitedkeyMarkDue(holds->ctx, &lock->key); /* one of many that a command frees */
    } else {
        waitedkeyUse(&lock->key);
        bool done = passOver(holds, lock);
        settle(holds, lock, done);
    }
    turnEnd();
}

void passHandOff(struct holds *holds) {
    struct lock *lock = contendedLockOf(holds);
    if (lock) {
        handOff(holds, lock);
    }
    latchesChanged(holds->ctx, holds->name);
    if (holds->shape == HOLDS_FREE) {
        effectsFreeForRedisson(holds->ctx, holds->name);
    }
}

/* Whether what is over of a semaphore, or a lease that has just ended, or whatever else there was to
 * be looked at, may let somebody in though the owner has just taken the lock. */
static bool mayFitNow(const struct holds *holds, const struct lock *lock) {
    bool is_late = waitedkeyWatchedAt(&lock->key) <= holds->now_ms;
    return lock->key.due || is_late || holds->shape == HOLDS_SEMAPHORE;
}

void passAfterTake(struct holds *holds, RedisModuleString *owner) {
    struct lock *lock = contendedLockOf(holds);
    if (!lock) {
        return;
    }
    bool was_cut = lock->is_cut; /* then the drain is on its way, in turns of its own */
    turnBegin();
    waitedkeyUse(&lock->key);
    bool done = grantReentries(holds, lock, owner);
    if (!done) {
        lookAtAllAgain(lock);
    } else if (mayFitNow(holds, lock) && !was_cut) {
        done = passOver(holds, lock);
    }
    settle(holds, lock, done && !was_cut);
    turnEnd();
}

/* ---- for the drain ---- */

static void look(RedisModuleCtx *ctx, struct waitedkey *key, int64_t now_ms) {
    passRun(ctx, contendedOfKey(key), now_ms);
}

static void sendOn(RedisModuleCtx *ctx, struct lock *lock, RedisModuleString *error) {
    struct position *position;
    bool over = false;
    while ((position = waitqueueFirst(&lock->queue)) && !over) {
        if (cancelledEndIf(ctx, waiterOfPosition(position))) {
            /* its client is not to go on waiting there */
        } else if (error) {
            waitersEndRedirected(ctx, waiterOfPosition(position), error);
        } else {
            waitersEnd(ctx, waiterOfPosition(position), WAITERS_TRY_AGAIN);
        }
        over = turnIsOver();
    }
}

/* What is not written down of it is not ours to write any more. */
static void redirect(RedisModuleCtx *ctx, struct waitedkey *key) {
    struct lock *lock = contendedOfKey(key);
    RedisModuleString *error = redirectFind(ctx, key->name);
    waitedkeyUse(key);
    sendOn(ctx, lock, error);
    unwrittenForget(lock);
    waitedkeyEndUse(ctx, key); /* if some are left, it is still due */
}

/* We have become a replica: whoever waited has been answered by the server, and positions that are
 * kept for owners are the master's to keep now. The new role has made every lock due. */
static void forget(RedisModuleCtx *ctx, struct waitedkey *key) {
    waitersForgetDetached(ctx, contendedOfKey(key));
}

const struct waitedkeyWork pass_work = {look, redirect, forget, .reads_only = false};
