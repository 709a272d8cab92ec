/* See grant.h. Rule numbers are those of docs/design.md. */
#include "grant/grant.h"

#include "core/mem.h"
#include "grant/pass.h"
#include "grant/take.h"
#include "keys/holds.h"
#include "keys/keynames.h"
#include "server/alarm.h"
#include "server/effects.h"
#include "server/server.h"
#include "server/stats.h"
#include "waits/events.h"
#include "waits/fairness.h"
#include "waits/sessions.h"
#include "waits/waiters.h"

static struct lock *findContended(RedisModuleCtx *ctx, RedisModuleString *name) {
    return contendedFind(RedisModule_GetSelectedDb(ctx), name);
}

static enum grantResult releaseIn(struct holds *holds, RedisModuleString *owner,
                                  enum releaseWhich which, struct grantOutcome *outcome) {
    enum lockMode mode;
    enum grantResult chosen = givebackMode(holds, owner, which, &mode);
    if (chosen != GRANT_DONE) {
        return chosen;
    }
    outcome->count = givebackHold(holds, owner, mode);
    if (outcome->count == 0) {
        passHandOn(holds);
    }
    return outcome->count < 0 ? GRANT_NOT_HELD : GRANT_DONE;
}

enum grantResult grantRelease(RedisModuleCtx *ctx, RedisModuleString *name,
                              RedisModuleString *owner, enum releaseWhich which, int64_t now_ms,
                              struct grantOutcome *outcome) {
    struct holds holds;
    holdsOpen(&holds, ctx, name, now_ms, KEY_TO_WRITE);
    enum grantResult result = releaseIn(&holds, owner, which, outcome);
    holdsClose(&holds);
    return result;
}

enum grantResult grantCheck(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                            int64_t now_ms) {
    struct holds holds;
    struct holdsView view = {0};
    holdsOpen(&holds, ctx, name, now_ms, KEY_TO_WRITE);
    enum grantResult checked = takeCheckKey(&holds);
    if (checked == GRANT_DONE) {
        holdsSeenBy(&holds, owner, &view);
    }
    holdsClose(&holds);
    if (checked != GRANT_DONE) {
        return checked;
    }
    return !view.foreign && rulesOwnsAny(&view) ? GRANT_DONE : GRANT_NOT_HELD;
}

static enum grantResult renewIn(struct holds *holds, RedisModuleString *owner, int64_t lease_ms,
                                struct grantOutcome *outcome) {
    enum grantResult checked = takeCheckKey(holds);
    if (checked != GRANT_DONE) {
        return checked;
    }
    outcome->count = holdsRenew(holds, owner, lease_ms);
    if (outcome->count == 0) {
        return GRANT_NOT_HELD;
    }
    struct lock *lock = findContended(holds->ctx, holds->name);
    if (lock) {
        contendedWatch(holds->ctx, lock, holdsNextEnd(holds), holds->now_ms);
    }
    return GRANT_DONE;
}

enum grantResult grantRenew(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                            int64_t lease_ms, enum grantBinding binding, unsigned long long session,
                            int64_t now_ms, struct grantOutcome *outcome) {
    struct holds holds;
    holdsOpen(&holds, ctx, name, now_ms, KEY_TO_WRITE);
    enum grantResult result = renewIn(&holds, owner, lease_ms, outcome);
    holdsClose(&holds);
    if (result == GRANT_DONE && binding == BINDING_NEW) {
        eventsWatchClients(ctx);
        sessionsBind(ctx, name, owner, session, now_ms);
    } else if (result == GRANT_DONE && binding == BINDING_END) {
        sessionsUnbind(RedisModule_GetSelectedDb(ctx), name, owner);
    }
    return result;
}

static enum grantResult forceIn(struct holds *holds, struct grantOutcome *outcome) {
    enum grantResult checked = takeCheckKey(holds);
    if (checked != GRANT_DONE) {
        return checked;
    }
    outcome->count = holdsForce(holds);
    if (outcome->count) {
        statsCount(STATS_FORCED);
        effectsEvent(holds->ctx, holds->name, "lock.forced");
        passHandOn(holds);
    }
    return GRANT_DONE;
}

enum grantResult grantForce(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms,
                            struct grantOutcome *outcome) {
    struct holds holds;
    holdsOpen(&holds, ctx, name, now_ms, KEY_TO_WRITE);
    enum grantResult result = forceIn(&holds, outcome);
    holdsClose(&holds);
    return result;
}

/* ---- cancelling ---- */

/* Takes into use every lock in whose queue these waits of the owner, which begin with `first`, stand:
 * a wait for several keys in others too. Returns how many they are. */
static size_t useLocksOf(struct position *first, struct lock **locks) {
    size_t count = 0;
    for (struct position *position = first; position; position = waitqueueNextOfOwner(position)) {
        struct waiter *waiter = waitersOfPosition(position);
        for (size_t i = 0; i < waiter->standing_count; i++) {
            struct lock *lock = contendedOfPosition(&waiter->standings[i].position);
            if (!lock->in_use) {
                contendedUse(lock);
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
        waitersEnd(ctx, waitersOfPosition(position), WAITERS_CANCELLED);
    }
}

/* Ends the use of the lock, and hands it on if it has become due. In a cluster another lock than the
 * command's may have gone ahead to another node, or be taken there: then the drain sends its waiters
 * on. */
static void lookAgain(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms) {
    if (!lock->due) {
        contendedEndUse(ctx, lock);
    } else if (!serverIsCluster() || serverConsentTo(ctx, lock->name) == SERVER_ACCEPTS) {
        passRun(ctx, lock, now_ms);
    } else {
        contendedEndUse(ctx, lock);
        alarmSet(ctx, 0);
    }
}

/* Ends the owner's waits, `first` and those behind it, and hands on what they kept from others. */
static void cancel(RedisModuleCtx *ctx, struct position *first, int64_t now_ms) {
    size_t room = 0;
    for (struct position *position = first; position; position = waitqueueNextOfOwner(position)) {
        room += waitersOfPosition(position)->standing_count;
    }
    struct lock *one = NULL;
    struct lock **locks = room > 1 ? memAlloc(room * sizeof(struct lock *)) : &one;
    size_t count = useLocksOf(first, locks);
    endAll(ctx, first);
    for (size_t i = 0; i < count; i++) {
        lookAgain(ctx, locks[i], now_ms);
    }
    if (room > 1) {
        memFree(locks);
    }
}

static struct position *findPosition(RedisModuleCtx *ctx, RedisModuleString *name,
                                     RedisModuleString *owner) {
    struct lock *lock = findContended(ctx, name);
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    return lock ? waitqueueOfOwner(&lock->queue, bytes, length) : NULL;
}

/* Whether keys say nothing of these waits of an owner, which begin with `first`. */
static bool areInMemoryOnly(struct position *first) {
    struct position *position = first;
    while (position && position->request->discipline != FAIR) {
        position = waitqueueNextOfOwner(position);
    }
    return first && !position;
}

enum grantResult grantCancel(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                             int64_t now_ms, struct grantOutcome *outcome) {
    if (keynamesSidesAreHere(ctx, name)) {
        fairnessLoad(ctx, name, now_ms); /* the position may be one from an earlier life */
    } else if (!areInMemoryOnly(findPosition(ctx, name, owner))) {
        return GRANT_TRY_AGAIN;
    }
    struct position *first = findPosition(ctx, name, owner);
    if (first) {
        cancel(ctx, first, now_ms);
        outcome->count = 1;
        return GRANT_DONE;
    }
    struct holds holds;
    enum holdsShape shape = holdsOpen(&holds, ctx, name, now_ms, KEY_TO_READ);
    holdsClose(&holds);
    return shape == HOLDS_WRONG_TYPE ? GRANT_WRONG_TYPE : GRANT_DONE;
}
