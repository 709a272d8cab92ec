/* How holds end before their lease does: by their owner, by force, with a client that died before
 * it was told, with a connection. Each time the lock is handed off.
 *
 *   releaseLock      LOCK.RELEASE
 *   releaseLocks     LOCK.MRELEASE
 *   releaseForce     LOCK.FORCE
 *   releaseLost      the drain's job: clients that died between grant and reply (rule 5)
 *   releaseRefused   likewise: what replicas have not acknowledged in time
 *   releaseSession   a connection has closed: sessions.c
 *
 * Contracts are in release.h.
 */
#include "grant/release.h"

#include <stdbool.h>

#include "blocking/drain.h"
#include "core/mem.h"
#include "grant/pass.h"
#include "keys/holds.h"
#include "server/effects.h"
#include "server/server.h"
#include "server/stats.h"
#include "server/turn.h"
#include "waits/acks.h"
#include "waits/contended.h"
#include "waits/inflight.h"
#include "waits/latches.h"
#include "waits/unheard.h"
#include "waits/watches.h"

/* ---- one lock ---- */

/* Of permits that were lost with their client some may have been released already, by another of
 * its owner. */
static int64_t lostCount(struct holds *holds, const struct release *release) {
    if (holds->shape != HOLDS_SEMAPHORE) {
        return release->count;
    }
    struct holdsView view;
    holdsSeenBy(holds, release->owner, &view);
    int64_t own = view.own[MODE_SEMAPHORE];
    return own > 0 && own < release->count ? own : release->count;
}

/* The owner has released what it may not have been told of, and follows up what it was told. A client
 * that died has said nothing. */
static void noteReleased(struct holds *holds, const struct release *release, enum lockMode mode) {
    if (release->is_lost) {
        return;
    }
    unheardFollowedUp(holds->ctx, holds->name, release->owner);
    if (inflightCount() > 0) {
        const struct inflightOwner of = {RedisModule_GetSelectedDb(holds->ctx), holds->name,
                                         release->owner, mode};
        inflightReleased(&of, release->count);
    }
}

static enum result releaseIn(struct holds *holds, const struct release *release,
                             struct outcome *outcome) {
    enum lockMode mode;
    enum result chosen = holdingModeOf(holds, release->owner, release->which, &mode);
    if (chosen != RESULT_DONE) {
        return chosen;
    }
    int64_t count = release->is_lost ? lostCount(holds, release) : release->count;
    outcome->count = holdingRelease(holds, release->owner, mode, count);
    if (outcome->count >= 0) {
        noteReleased(holds, release, mode);
    }
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
        unheardForced(holds->ctx, holds->name);
        watchesNoteAll(holds->ctx, holds->name);
        effectsEvent(holds->ctx, holds->name, "lock.forced");
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

/* Whether the owner has a hold of this lock to release. */
static enum result check(struct holds *holds, RedisModuleString *owner) {
    enum lockMode mode;
    enum result chosen = holdingModeOf(holds, owner, HOLDING_ONLY_MODE, &mode);
    if (chosen != RESULT_DONE) {
        return chosen;
    }
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    return view.own[mode] > 0 ? RESULT_DONE : RESULT_NOT_HELD;
}

static enum result checkAll(RedisModuleCtx *ctx, const struct multikeyNames *locks,
                            const struct release *release) {
    enum result result = RESULT_DONE;
    for (size_t i = 0; result == RESULT_DONE && i < locks->count; i++) {
        struct holds holds;
        /* Which takes away what is over. */
        holdsOpenToWrite(&holds, ctx, locks->names[i], release->now_ms);
        result = check(&holds, release->owner);
        holdsClose(&holds);
    }
    return result;
}

/* Returns whether somebody may get in now. Counts those that the owner does not hold any more, in
 * the only mode that it had. */
static bool releaseOne(RedisModuleCtx *ctx, RedisModuleString *name, const struct release *release,
                       int64_t *freed) {
    struct holds holds;
    enum lockMode mode;
    holdsOpenToWrite(&holds, ctx, name, release->now_ms);
    enum result chosen = holdingModeOf(&holds, release->owner, HOLDING_ONLY_MODE, &mode);
    int64_t left = -1;
    if (chosen == RESULT_DONE) {
        left = holdingRelease(&holds, release->owner, mode, release->count);
    }
    if (left >= 0) {
        noteReleased(&holds, release, mode);
    }
    holdsClose(&holds);
    *freed += left == 0;
    return chosen == RESULT_DONE && holdingFrees(mode, left);
}

/* Puts the names of the locks to hand off first. Returns how many they are. One handle at a time:
 * two locks may share their side keys. */
static size_t releaseEach(RedisModuleCtx *ctx, struct multikeyNames *locks,
                          const struct release *release, int64_t *freed) {
    size_t count = 0;
    for (size_t i = 0; i < locks->count; i++) {
        if (releaseOne(ctx, locks->names[i], release, freed)) {
            locks->names[count++] = locks->names[i];
        }
    }
    return count;
}

static void handOff(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms) {
    struct holds holds;
    holdsOpenToWrite(&holds, ctx, name, now_ms);
    passHandOff(&holds);
    holdsClose(&holds);
}

enum result releaseLocks(RedisModuleCtx *ctx, const struct multikeyNames *names,
                         const struct release *release, struct outcome *outcome) {
    struct multikeyNames distinct = multikeyDistinct(names);
    enum result result = checkAll(ctx, &distinct, release);
    size_t count = 0;
    if (result == RESULT_DONE) {
        count = releaseEach(ctx, &distinct, release, &outcome->count);
    }
    turnBegin(); /* one for all */
    for (size_t i = 0; i < count; i++) {
        handOff(ctx, distinct.names[i], release->now_ms);
    }
    turnEnd();
    memFree(distinct.names);
    return result;
}

/* ---- grants that were lost ---- */

static enum holdingWhich whichOf(enum lockMode mode) {
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

/* First off the record: the lock may go to another wait of the same owner, which takes it anew. */
static void releaseHold(RedisModuleCtx *ctx, struct inflightHold *lost, int64_t now_ms) {
    RedisModuleString *name = lost->name, *owner = lost->owner;
    const struct release release = {.owner = owner,
                                    .which = whichOf(lost->mode),
                                    .count = lost->count - lost->kept,
                                    .is_lost = true,
                                    .now_ms = now_ms};
    struct outcome outcome = {0};
    RedisModule_RetainString(NULL, name);
    RedisModule_RetainString(NULL, owner);
    inflightFreeLost(lost);
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

/* Returns false if the server would refuse the write now, or uses the key. In the latter case the
 * others are first the next time. */
static bool releaseOrPostpone(RedisModuleCtx *ctx, struct inflightHold *lost, int64_t now_ms) {
    RedisModule_SelectDb(ctx, lost->db);
    switch (serverConsentTo(ctx, lost->name)) {
    case SERVER_ACCEPTS:
        if (isInUse(ctx, lost->name, now_ms)) {
            inflightPutLast(lost);
            return false;
        }
        releaseHold(ctx, lost, now_ms);
        return true;
    case SERVER_NOT_OURS:
        inflightFreeLost(lost);
        return true;
    case SERVER_REFUSES:
        break;
    }
    return false;
}

/* Releases what is lost, until the turn is over. Returns false if the server refuses some of it now. */
static bool releaseSome(RedisModuleCtx *ctx, int64_t now_ms) {
    bool refused = false;
    struct inflightHold *lost;
    while (!refused && (lost = inflightFirstLost()) && !turnIsOver()) {
        refused = !releaseOrPostpone(ctx, lost, now_ms);
    }
    return !refused;
}

void releaseLost(RedisModuleCtx *ctx, int64_t now_ms) {
    if (!releaseSome(ctx, now_ms)) {
        drainRetry(ctx);
    } else if (inflightFirstLost()) {
        drainSetAlarm(ctx, 0);
    }
}

/* First their holds, then their clients: who asks again at once is not to find a hold of its own,
 * nor anybody else to find it busy. What the server would refuse to release now stays lost. */
void releaseRefused(RedisModuleCtx *ctx, int64_t now_ms) {
    struct ack *ack;
    bool accepted = true;
    while ((ack = acksFirstRefused()) && !turnIsOver()) {
        acksLose(ctx, ack);
        accepted = releaseSome(ctx, now_ms);
        if (accepted && inflightFirstLost()) {
            break; /* the turn is over before all is released */
        }
        acksTellRefused(ctx, ack);
    }
    if (!accepted) {
        drainRetry(ctx);
    }
    if (ack) {
        drainSetAlarm(ctx, 0);
    }
}

void releaseForgetLost(RedisModuleCtx *ctx) {
    (void)ctx;
    struct inflightHold *lost;
    while ((lost = inflightFirstLost())) {
        inflightFreeLost(lost);
    }
}

/* ---- sessions ---- */

/* Whether somebody waits for the lock, and the server would let him have it now. */
static bool mayHandOff(RedisModuleCtx *ctx, RedisModuleString *name, const struct lock *lock) {
    return lock && serverConsentTo(ctx, name) == SERVER_ACCEPTS;
}

void releaseSession(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                    int64_t now_ms) {
    struct holds holds;
    struct lock *lock = contendedFind(RedisModule_GetSelectedDb(ctx), name);
    bool hand_off = mayHandOff(ctx, name, lock);
    holdsOpenToWrite(&holds, ctx, name, now_ms);
    if (holdsDrop(&holds, owner) > 0) {
        statsCount(STATS_SESSIONS_RELEASED);
        unheardFollowedUp(ctx, name, owner);
        watchesNoteOwner(ctx, name, owner);
        effectsEvent(ctx, name, "lock.released");
        if (hand_off || !lock) {
            passHandOff(&holds);
        } else {
            waitedkeyMarkDue(ctx, &lock->key); /* the drain asks again until it may */
            latchesChanged(ctx, name);
        }
    }
    holdsClose(&holds);
}
