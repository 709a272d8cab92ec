/* See grant.h. Rule numbers are those of docs/design.md. */
#include "grant.h"

#include "effects.h"
#include "events.h"
#include "fairness.h"
#include "holds.h"
#include "mem.h"
#include "pass.h"
#include "sessions.h"
#include "stats.h"
#include "waiters.h"

static struct lock *findContended(RedisModuleCtx *ctx, RedisModuleString *name) {
    return contendedFind(RedisModule_GetSelectedDb(ctx), name);
}

static enum grantResult releaseIn(struct holds *holds, RedisModuleString *owner,
                                  enum giveBack which, struct grantOutcome *outcome) {
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
                              RedisModuleString *owner, enum giveBack which, int64_t now_ms,
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
    enum holdsShape shape = holdsOpen(&holds, ctx, name, now_ms, KEY_TO_WRITE);
    if (shape != HOLDS_WRONG_TYPE) {
        holdsSeenBy(&holds, owner, &view);
    }
    holdsClose(&holds);
    if (shape == HOLDS_WRONG_TYPE) {
        return GRANT_WRONG_TYPE;
    }
    return !view.foreign && rulesOwnsAny(&view) ? GRANT_DONE : GRANT_NOT_HELD;
}

static enum grantResult renewIn(struct holds *holds, RedisModuleString *owner, int64_t lease_ms,
                                struct grantOutcome *outcome) {
    if (holds->shape == HOLDS_WRONG_TYPE) {
        return GRANT_WRONG_TYPE;
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
    if (holds->shape == HOLDS_WRONG_TYPE) {
        return GRANT_WRONG_TYPE;
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
static size_t useLocksOf(struct place *first, struct lock **locks) {
    size_t count = 0;
    for (struct place *place = first; place; place = waitqueueNextOfOwner(place)) {
        struct waiter *waiter = waitersOfPlace(place);
        for (size_t i = 0; i < waiter->standing_count; i++) {
            struct lock *lock = contendedOfPlace(&waiter->standings[i].place);
            if (!lock->in_use) {
                contendedUse(lock);
                locks[count++] = lock;
            }
        }
    }
    return count;
}

static void endAll(RedisModuleCtx *ctx, struct place *first) {
    struct place *next;
    for (struct place *place = first; place; place = next) {
        next = waitqueueNextOfOwner(place);
        statsCount(STATS_CANCELLED);
        waitersEnd(ctx, waitersOfPlace(place), WAITERS_CANCELLED);
    }
}

/* Ends the owner's waits, `first` and those behind it, and hands on what they kept from others. */
static void cancel(RedisModuleCtx *ctx, struct place *first, int64_t now_ms) {
    size_t room = 0;
    for (struct place *place = first; place; place = waitqueueNextOfOwner(place)) {
        room += waitersOfPlace(place)->standing_count;
    }
    struct lock *one = NULL;
    struct lock **locks = room > 1 ? memAlloc(room * sizeof(struct lock *)) : &one;
    size_t count = useLocksOf(first, locks);
    endAll(ctx, first);
    for (size_t i = 0; i < count; i++) {
        if (locks[i]->due) {
            passRun(ctx, locks[i], now_ms);
        } else {
            contendedEndUse(ctx, locks[i]);
        }
    }
    if (room > 1) {
        memFree(locks);
    }
}

static struct place *findPlace(RedisModuleCtx *ctx, RedisModuleString *name,
                               RedisModuleString *owner) {
    struct lock *lock = findContended(ctx, name);
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    return lock ? waitqueueOfOwner(&lock->queue, bytes, length) : NULL;
}

enum grantResult grantCancel(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                             int64_t now_ms, struct grantOutcome *outcome) {
    fairnessLoad(ctx, name, now_ms); /* the place may be one from an earlier life */
    struct place *first = findPlace(ctx, name, owner);
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
