/* See pass.h. Rule numbers are those of docs/design.md. */
#include "pass.h"

#include <stdbool.h>
#include <stddef.h>

#include "effects.h"
#include "fairness.h"
#include "joint.h"
#include "rules.h"
#include "stats.h"
#include "take.h"
#include "waiters.h"

/* Gives the lock to the waiter if it fits now. Returns whether the waiter is gone. */
static bool grantIfFits(struct holds *holds, struct waiter *waiter) {
    if (!waiter->bc) {
        return false; /* a reserved place: its owner has to come back for it */
    }
    if (waiter->request.discipline == JOINT) {
        return jointGrant(holds, waiter);
    }
    struct holdsView view;
    holdsSeenBy(holds, waiter->owner, &view);
    enum verdict verdict = rulesDecide(waiter->request.mode, &view);
    if (verdict != VERDICT_GRANT && verdict != VERDICT_REENTER) {
        return false;
    }
    struct take take = takeOfWaiter(waiter);
    if (takeHasSides(&take, waiter->request.discipline) && !holdsSidesAreHere(holds)) {
        waitersEnd(holds->ctx, waiter, WAITERS_TRY_AGAIN);
        return true;
    }
    int64_t answer = takeHold(holds, &take, verdict);
    if (answer == 0) {
        waitersEnd(holds->ctx, waiter, WAITERS_TOO_MANY_HOLDS);
        return true;
    }
    waitersGrant(holds->ctx, waiter, answer, holds->now_ms);
    return true;
}

/* The owner has come by a hold: whatever else it waits for here, on other connections, is decided
 * by rule 1 alone from now on, and what has to wait still waits at the head (rule 2). A place that
 * was kept for it has served its purpose. */
static void grantReentries(struct holds *holds, struct lock *lock, RedisModuleString *owner) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    struct place *place = waitqueueOfOwner(&lock->queue, bytes, length);
    while (place) {
        struct place *next = waitqueueNextOfOwner(place);
        struct waiter *waiter = waitersOfPlace(place);
        if (!waiter->bc) {
            waitersEnd(holds->ctx, waiter, WAITERS_CANCELLED);
        } else if (!grantIfFits(holds, waiter) && waiter->request.discipline != JOINT) {
            waitqueueMoveFirst(place); /* but those for several keys keep one order in all queues */
        }
        place = next;
    }
}

/* Lets waiters in from the head, as long as they fit. */
static void grantFromHead(struct holds *holds, struct lock *lock) {
    struct place *head;
    while ((head = waitqueueFirst(&lock->queue))) {
        struct waiter *waiter = waitersOfPlace(head);
        RedisModuleString *owner = waiter->owner;
        RedisModule_RetainString(NULL, owner); /* outlives the waiter */
        bool granted = grantIfFits(holds, waiter);
        if (granted) {
            grantReentries(holds, lock, owner);
        }
        RedisModule_FreeString(NULL, owner);
        if (!granted) {
            break;
        }
    }
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* What every use of a lock in memory ends with: the keys are as memory is, and the next look is
 * set. */
static void settle(struct holds *holds, struct lock *lock) {
    fairnessWriteDown(holds->ctx, lock, holds->now_ms);
    contendedClearDue(lock);
    int64_t look_ms = earlier(holdsNextEnd(holds), fairnessNextLook(lock));
    contendedWatch(holds->ctx, lock, look_ms, holds->now_ms);
    contendedEndUse(holds->ctx, lock);
}

struct reentering {
    struct lock *lock;
    RedisModuleString *owner; /* a holder that waits here too, or NULL */
};

/* Takes the first that is found: more than one such owner at once, and each has to be edited in by
 * hand. */
static void findReentering(const struct holder *holder, void *data) {
    struct reentering *found = data;
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(holder->owner, &length);
    if (!found->owner && waitqueueOfOwner(&found->lock->queue, bytes, length)) {
        found->owner = RedisModule_CreateStringFromString(NULL, holder->owner);
    }
}

/* Somebody else may have written an owner into the key that waits in the middle of the queue. */
static void grantToHolder(struct holds *holds, struct lock *lock) {
    struct reentering found = {lock, NULL};
    holdsEach(holds, findReentering, &found);
    if (found.owner) {
        grantReentries(holds, lock, found.owner);
        RedisModule_FreeString(NULL, found.owner);
    }
}

/* The pass itself, with what has happened to the lock since the last one. Every way here works all
 * of its notes off, because the notes are cleared afterwards. */
static void passOver(struct holds *holds, struct lock *lock) {
    if (holds->shape == HOLDS_MOVING) {
        return; /* the notes are for when it is ours again; or its waiters are sent on */
    }
    if (contendedTakeNote(lock, CONTENDED_FLUSHED)) {
        fairnessFlushed(holds->ctx, lock);
    }
    if (contendedTakeNote(lock, CONTENDED_EDITED)) {
        grantToHolder(holds, lock);
    }
    if (contendedTakeNote(lock, CONTENDED_LEASE_ENDED)) {
        statsCount(STATS_LEASE_ENDS);
        effectsEvent(holds->ctx, holds->name, "lock.expired");
    }
    if (holds->shape != HOLDS_WRONG_TYPE) {
        grantFromHead(holds, lock);
    }
}

void passRun(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms) {
    struct holds holds;
    contendedUse(lock);
    holdsOpen(&holds, ctx, lock->name, now_ms, KEY_TO_WRITE);
    passOver(&holds, lock);
    settle(&holds, lock);
    holdsClose(&holds);
}

static struct lock *contendedLockOf(struct holds *holds) {
    return contendedFind(RedisModule_GetSelectedDb(holds->ctx), holds->name);
}

void passHandOn(struct holds *holds) {
    struct lock *lock = contendedLockOf(holds);
    if (lock) {
        contendedUse(lock);
        passOver(holds, lock);
        settle(holds, lock);
    }
    if (holds->shape == HOLDS_FREE) {
        effectsFreeForRedisson(holds->ctx, holds->name);
    }
}

void passAfterTake(struct holds *holds, RedisModuleString *owner) {
    struct lock *lock = contendedLockOf(holds);
    if (lock) {
        contendedUse(lock);
        grantReentries(holds, lock, owner);
        if (lock->due) {
            passOver(holds, lock);
        }
        settle(holds, lock);
    }
}
