/* See renew.h. */
#include "grant/renew.h"

#include "grant/holding.h"
#include "keys/holds.h"
#include "waits/contended.h"
#include "waits/events.h"
#include "waits/inflight.h"
#include "waits/latches.h"
#include "waits/sessions.h"
#include "waits/watches.h"

/* Its client relies on the holds from now on, whoever was to be told of them. */
static void noteTold(struct holds *holds, RedisModuleString *owner) {
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        const struct inflightTaken told = {
            .of = {RedisModule_GetSelectedDb(holds->ctx), holds->name, owner, (enum lockMode)mode},
            .has = view.own[mode],
            .needs = view.own[mode]};
        inflightTold(&told);
    }
}

static enum result renewIn(struct holds *holds, const struct renewal *renewal,
                           struct outcome *outcome) {
    enum result checked = holdingCheck(holds);
    if (checked != RESULT_DONE) {
        return checked;
    }
    outcome->count = holdsRenew(holds, renewal->owner, renewal->lease_ms);
    if (outcome->count == 0) {
        return RESULT_NOT_HELD;
    }
    if (inflightCount() > 0) {
        noteTold(holds, renewal->owner);
    }
    watchesNoteOwner(holds->ctx, holds->name, renewal->owner);
    latchesChanged(holds->ctx, holds->name);
    struct lock *lock = contendedFind(RedisModule_GetSelectedDb(holds->ctx), holds->name);
    if (lock) {
        waitedkeyWatch(holds->ctx, &lock->key, holdsNextEnd(holds), holds->now_ms);
    }
    return RESULT_DONE;
}

static void rebind(RedisModuleCtx *ctx, RedisModuleString *name, const struct renewal *renewal) {
    const struct sessionsHold hold = {RedisModule_GetSelectedDb(ctx), name, renewal->owner};
    switch (renewal->binding) {
    case BINDING_NEW:
        eventsWatchClients(ctx);
        sessionsBind(ctx, &hold, &renewal->session, renewal->now_ms);
        break;
    case BINDING_END:
        sessionsUnbind(&hold);
        break;
    case BINDING_KEEP:
        break;
    }
}

enum result renewLock(RedisModuleCtx *ctx, RedisModuleString *name, const struct renewal *renewal,
                      struct outcome *outcome) {
    struct holds holds;
    holdsOpenToWrite(&holds, ctx, name, renewal->now_ms);
    enum result result = renewIn(&holds, renewal, outcome);
    holdsClose(&holds);
    if (result == RESULT_DONE) {
        rebind(ctx, name, renewal);
    }
    return result;
}

enum result renewCheck(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                       int64_t now_ms) {
    struct holds holds;
    holdsOpenToWrite(&holds, ctx, name, now_ms);
    enum result result = holdingCheck(&holds);
    if (result == RESULT_DONE && !holdingIsHeld(&holds, owner)) {
        result = RESULT_NOT_HELD;
    }
    holdsClose(&holds);
    return result;
}
