/* The ways to release a hold.
 *
 *   releaseLock      releases one lock, for LOCK.RELEASE
 *   releaseLocks     releases several locks, for LOCK.MRELEASE
 *   releaseForce     frees a lock, for LOCK.FORCE
 *   releaseLost      releases holds whose clients' connections closed between grant and reply
 *   releaseRefused   releases grants that were not acknowledged within the timeout of REPLICAS
 *   releaseSession   releases holds after their connection has closed, for sessions.c
 *
 * Contracts are in release.h.
 */
#include "grant/release.h"

#include <stdbool.h>

#include "blocking/drain.h"
#include "common/propagate.h"
#include "common/stats.h"
#include "core/mem.h"
#include "grant/pass.h"
#include "keys/holds.h"
#include "ledger/acks.h"
#include "ledger/ledger.h"
#include "ledger/pendingreply.h"
#include "server/server.h"
#include "server/timeslice.h"
#include "waits/contended.h"
#include "waits/latches.h"

static enum holdingWhich releaseWhichOf(enum lockMode mode) {
    switch (mode) {
    case MODE_READ:
        return HOLDING_READ;
    case MODE_WRITE:
        return HOLDING_WRITE;
    case MODE_SEMAPHORE:
        return HOLDING_PERMITS;
    case MODE_EXCLUSIVE:
    case MODE_COUNT:
        break;
    }
    return HOLDING_ONLY_MODE;
}

/* ---- one lock ---- */

/* How much of a lost hold is still there: some of its permits may have been released already, by
 * another client of its owner. */
static int64_t lostCount(struct holds *holds, const struct release *release) {
    if (holds->kind != HOLDS_SEMAPHORE) {
        return release->count;
    }
    struct holdsView view;
    holdsSeenBy(holds, release->owner, &view);
    int64_t own = view.own[MODE_SEMAPHORE];
    return own > 0 && own < release->count ? own : release->count;
}

static enum result releaseIn(struct holds *holds, const struct release *release,
                             struct outcome *outcome) {
    enum lockMode mode;
    enum result chosen = holdingModeOf(holds, release->owner, release->which, &mode);
    if (chosen != RESULT_DONE) {
        return chosen;
    }
    const struct holdingRelease one = {.owner = release->owner,
                                       .mode = mode,
                                       .count = release->is_lost ? lostCount(holds, release)
                                                                 : release->count,
                                       .is_lost = release->is_lost};
    outcome->count = holdingRelease(holds, &one);
    if (holdingFrees(mode, outcome->count)) {
        passHandOff(holds);
    }
    return outcome->count < 0 ? RESULT_NOT_HELD : RESULT_DONE;
}

enum result releaseLock(RedisModuleCtx *ctx, RedisModuleString *name, const struct release *release,
                        struct outcome *outcome) {
    struct holds holds;
    holdsOpenToWrite(&holds, ctx, name, release->now_ms);
    enum result result = releaseIn(&holds, release, outcome);
    holdsClose(&holds);
    return result;
}

static enum result forceIn(struct holds *holds, struct outcome *outcome) {
    enum result checked = holdingCheck(holds);
    if (checked != RESULT_DONE) {
        return checked;
    }
    outcome->count = holdsForce(holds);
    if (outcome->count) {
        statsCount(STATS_FORCED);
        ledgerForced(holds);
        propagateEvent(holds->ctx, holds->name, "lock.forced");
        passHandOff(holds);
    }
    return RESULT_DONE;
}

enum result releaseForce(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms,
                         struct outcome *outcome) {
    struct holds holds;
    holdsOpenToWrite(&holds, ctx, name, now_ms);
    enum result result = forceIn(&holds, outcome);
    holdsClose(&holds);
    return result;
}

/* ---- several locks ---- */

/* Whether the owner has a hold on this lock to release. */
static enum result releaseCheck(struct holds *holds, RedisModuleString *owner,
                                enum lockMode which) {
    enum lockMode mode;
    enum result chosen = holdingModeOf(holds, owner, releaseWhichOf(which), &mode);
    if (chosen != RESULT_DONE) {
        return chosen;
    }
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    return view.own[mode] > 0 ? RESULT_DONE : RESULT_NOT_HELD;
}

/* Whether the owner has a hold to release on each of them. */
static enum result checkAll(const struct multikey *locks, const struct release *release) {
    enum result result = RESULT_DONE;
    for (size_t i = 0; result == RESULT_DONE && i < locks->count; i++) {
        const struct multikeyKey *key = &locks->keys[i];
        result = releaseCheck(key->holds, release->owner, key->mode);
        multikeyCloseLeases(locks, key);
    }
    return result;
}

/* Returns whether a waiter may fit now. Counts in `*freed` the locks that the owner no longer holds
 * in this mode. */
static bool releaseOne(const struct multikeyKey *key, const struct release *release,
                       int64_t *freed) {
    enum lockMode mode;
    enum result chosen =
        holdingModeOf(key->holds, release->owner, releaseWhichOf(key->mode), &mode);
    RedisModule_Assert(chosen == RESULT_DONE); /* it has been checked */
    const struct holdingRelease one = {release->owner, mode, release->count, false};
    int64_t left = holdingRelease(key->holds, &one);
    *freed += left == 0;
    return holdingFrees(mode, left);
}

/* Moves the locks to hand off to the front of `given`. Returns how many there are. */
static size_t releaseEach(const struct multikey *locks, struct multikeyLocks *given,
                          const struct release *release, int64_t *freed) {
    size_t count = 0;
    for (size_t i = 0; i < locks->count; i++) {
        if (releaseOne(&locks->keys[i], release, freed)) {
            given->each[count++] = given->each[i];
        }
        multikeyCloseLeases(locks, &locks->keys[i]);
    }
    return count;
}

static void releaseHandOff(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms) {
    struct holds holds;
    holdsOpenToWrite(&holds, ctx, name, now_ms);
    passHandOff(&holds);
    holdsClose(&holds);
}

enum result releaseLocks(RedisModuleCtx *ctx, struct multikeyLocks *given,
                         const struct release *release, struct outcome *outcome) {
    multikeyMakeDistinct(given);
    struct multikey *locks = multikeyOpen(ctx, given, release->now_ms);
    enum result result = checkAll(locks, release);
    size_t count = 0;
    if (result == RESULT_DONE) {
        count = releaseEach(locks, given, release, &outcome->count);
    }
    multikeyClose(locks); /* a pass opens the locks of its waiters */
    timesliceBegin();     /* one time slice for all */
    for (size_t i = 0; i < count && passIsNeeded(); i++) {
        releaseHandOff(ctx, given->each[i].name, release->now_ms);
    }
    timesliceEnd();
    return result;
}

/* ---- lost grants ---- */

/* Removes the record before the release: the lock may be handed to another wait of the same owner,
 * which is a new hold. */
static void releaseHold(RedisModuleCtx *ctx, struct pendingreplyHold *lost, int64_t now_ms) {
    RedisModuleString *name = lost->name, *owner = lost->owner;
    const struct release release = {.owner = owner,
                                    .which = releaseWhichOf(lost->mode),
                                    .count = lost->count - lost->retained,
                                    .is_lost = true,
                                    .now_ms = now_ms};
    struct outcome outcome = {0};
    RedisModule_RetainString(NULL, name);
    RedisModule_RetainString(NULL, owner);
    pendingreplyFreeHold(lost);
    releaseLock(ctx, name, &release, &outcome);
    RedisModule_FreeString(NULL, name);
    RedisModule_FreeString(NULL, owner);
}

static bool isInUse(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms) {
    struct holds holds;
    bool in_use = holdsOpenToWrite(&holds, ctx, name, now_ms) == HOLDS_IN_USE;
    holdsClose(&holds);
    return in_use;
}

/* Returns false if the server would refuse the write now, or uses the key. If it uses the key, the
 * other lost holds are tried first the next time. */
static bool releaseOrPostpone(RedisModuleCtx *ctx, struct pendingreplyHold *lost, int64_t now_ms) {
    RedisModule_SelectDb(ctx, pendingreplyDb(lost));
    switch (serverMayWriteKey(ctx, lost->name)) {
    case SERVER_ACCEPTS:
        if (isInUse(ctx, lost->name, now_ms)) {
            pendingreplyPutLast(lost);
            return false;
        }
        releaseHold(ctx, lost, now_ms);
        return true;
    case SERVER_NOT_OURS:
        pendingreplyFreeHold(lost);
        return true;
    case SERVER_REFUSES:
        break;
    }
    return false;
}

/* Releases lost holds until the time slice ends. Returns false if the server refuses one of them
 * now. */
static bool releaseSome(RedisModuleCtx *ctx, int64_t now_ms) {
    bool refused = false;
    struct pendingreplyHold *lost;
    while (!refused && (lost = pendingreplyFirstLost()) && !timesliceHasEnded()) {
        refused = !releaseOrPostpone(ctx, lost, now_ms);
    }
    return !refused;
}

void releaseLost(RedisModuleCtx *ctx, int64_t now_ms) {
    if (!releaseSome(ctx, now_ms)) {
        drainRetry(ctx, DRAIN_LOST_HOLDS);
    } else if (pendingreplyFirstLost()) {
        drainSetAlarm(ctx, DRAIN_LOST_HOLDS, 0);
    }
}

/* Releases the holds before it replies to the clients: a client that retries at once must not find
 * a hold of its own, and no other client must find the lock busy. What the server would refuse to
 * release now stays lost. */
void releaseRefused(RedisModuleCtx *ctx, int64_t now_ms) {
    struct ack *ack;
    while ((ack = acksFirstRefused()) && !timesliceHasEnded()) {
        acksLose(ctx, ack);
        if (releaseSome(ctx, now_ms) && pendingreplyFirstLost()) {
            break; /* the time slice ended before all was released */
        }
        acksReplyRefused(ctx, ack);
    }
    if (ack) {
        drainSetAlarm(ctx, DRAIN_REFUSED_ACKS, 0);
    }
}

void releaseForgetLost(RedisModuleCtx *ctx) {
    (void)ctx;
    struct pendingreplyHold *lost;
    while ((lost = pendingreplyFirstLost())) {
        pendingreplyFreeHold(lost);
    }
}

/* ---- sessions ---- */

/* Whether a client waits for the lock, and the server would accept the grant now. */
static bool mayHandOff(RedisModuleCtx *ctx, RedisModuleString *name, const struct lock *lock) {
    return lock && serverMayWriteKey(ctx, name) == SERVER_ACCEPTS;
}

void releaseSession(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                    int64_t now_ms) {
    struct holds holds;
    struct lock *lock = contendedFindHere(ctx, name);
    bool hand_off = mayHandOff(ctx, name, lock);
    holdsOpenToWrite(&holds, ctx, name, now_ms);
    if (holdsDrop(&holds, owner) > 0) {
        statsCount(STATS_SESSIONS_RELEASED);
        ledgerDropped(&holds, owner);
        propagateEvent(ctx, name, "lock.released");
        if (hand_off || !lock) {
            passHandOff(&holds);
        } else {
            blockingkeyMarkDue(ctx, &lock->key); /* the drain retries until it may */
            latchesChanged(ctx, name);
        }
    }
    holdsClose(&holds);
}
