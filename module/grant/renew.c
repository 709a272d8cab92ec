/* See renew.h. */
#include "grant/renew.h"

#include "common/quarantine.h"
#include "grant/holding.h"
#include "keys/holds.h"
#include "ledger/acks.h"
#include "ledger/events.h"
#include "ledger/ledger.h"
#include "ledger/pendingreply.h"
#include "ledger/sessions.h"
#include "waits/contended.h"
#include "waits/latches.h"

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
    ledgerRenewed(holds, renewal->owner, pendingreply);
    latchesChanged(holds->ctx, holds->name);
    struct lock *lock = contendedFindHere(holds->ctx, holds->name);
    if (lock) {
        blockingkeyWatch(holds->ctx, &lock->key, holdsNextEnd(holds), holds->now_ms);
    }
    return RESULT_DONE;
}

static void rebind(RedisModuleCtx *ctx, RedisModuleString *name, const struct renewal *renewal) {
    const struct holdId id = {RedisModule_GetSelectedDb(ctx), name, renewal->owner};
    switch (renewal->binding) {
    case BINDING_NEW:
        eventsWatchClients(ctx);
        sessionsBind(ctx, &id, &renewal->session, renewal->now_ms);
        break;
    case BINDING_END:
        sessionsUnbind(&id);
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
    ledgerConfirmed(ctx, name, renewal->owner);
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
