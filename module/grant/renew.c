/* See renew.h. */
#include "grant/renew.h"

#include "grant/holding.h"
#include "keys/holds.h"
#include "server/quarantine.h"
#include "waits/acks.h"
#include "waits/contended.h"
#include "waits/events.h"
#include "waits/latches.h"
#include "waits/pendingreply.h"
#include "waits/sessions.h"
#include "waits/unconfirmed.h"
#include "waits/watches.h"

/* The renewal's client depends on the holds from now on, whichever client was to receive a reply
 * about them; with `pendingreply`, once that reply has been delivered. */
static void noteReported(struct holds *holds, RedisModuleString *owner,
                         struct pendingreply *pendingreply) {
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        const struct pendingreplyTaken reported = {
            .of = {RedisModule_GetSelectedDb(holds->ctx), holds->name, owner, (enum lockMode)mode},
            .has = view.own[mode],
            .needs = view.own[mode]};
        if (!pendingreply) {
            pendingreplyConfirmed(&reported);
        } else if (reported.has > 0) {
            pendingreplyAdd(pendingreply, &reported);
        }
    }
}

static enum result renewIn(struct holds *holds, const struct renewal *renewal,
                           struct pendingreply *pendingreply, struct outcome *outcome) {
    enum result checked = holdingCheck(holds);
    if (checked != RESULT_DONE) {
        return checked;
    }
    outcome->count = holdsRenew(holds, renewal->owner, renewal->lease_ms);
    if (outcome->count == 0) {
        return RESULT_NOT_HELD;
    }
    if (pendingreply || pendingreplyCount() > 0) {
        noteReported(holds, renewal->owner, pendingreply);
    }
    watchesNoteOwner(holds->ctx, holds->name, renewal->owner);
    latchesChanged(holds->ctx, holds->name);
    struct lock *lock = contendedFind(RedisModule_GetSelectedDb(holds->ctx), holds->name);
    if (lock) {
        blockingkeyWatch(holds->ctx, &lock->key, holdsNextEnd(holds), holds->now_ms);
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

/* The new lease stays, whether or not replicas acknowledge it: the reply reports holds, but adds
 * none. */
static enum result renewAwaitReplicas(RedisModuleCtx *ctx, const struct renewal *renewal,
                                      struct pendingreply *pendingreply,
                                      const struct outcome *outcome) {
    const struct acksAnswer answer = {.replicas = renewal->replicas,
                                      .number = outcome->count,
                                      .pendingreply = pendingreply,
                                      .is_renewal = true,
                                      .lease_ms = renewal->lease_ms,
                                      .now_ms = renewal->now_ms};
    return acksBegin(ctx, &answer);
}

enum result renewLock(RedisModuleCtx *ctx, RedisModuleString *name, const struct renewal *renewal,
                      struct outcome *outcome) {
    if (quarantineKeepsRenewal(renewal->now_ms)) {
        return RESULT_STALLED;
    }
    struct holds holds;
    enum result ready = acksReady(ctx, &renewal->replicas);
    if (ready != RESULT_DONE) {
        return ready;
    }
    const struct requestSession none = {0};
    struct pendingreply *pendingreply =
        renewal->replicas.count > 0 ? pendingreplyNew(&none, PENDINGREPLY_RENEWAL) : NULL;
    unconfirmedEnd(ctx, name, renewal->owner);
    holdsOpenToWrite(&holds, ctx, name, renewal->now_ms);
    enum result result = renewIn(&holds, renewal, pendingreply, outcome);
    holdsClose(&holds);
    if (result == RESULT_DONE) {
        rebind(ctx, name, renewal);
        return pendingreply ? renewAwaitReplicas(ctx, renewal, pendingreply, outcome) : RESULT_DONE;
    }
    if (pendingreply) {
        pendingreplyDrop(pendingreply);
    }
    return result;
}

enum result renewCheck(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                       int64_t now_ms) {
    struct holds holds;
    unconfirmedEnd(ctx, name, owner);
    holdsOpenToWrite(&holds, ctx, name, now_ms);
    enum result result = holdingCheck(&holds);
    if (result == RESULT_DONE && !holdingIsHeld(&holds, owner)) {
        result = RESULT_NOT_HELD;
    }
    holdsClose(&holds);
    return result;
}
