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

/* Whether the server renews leases now, for a renewal that replicas may have to acknowledge. */
static enum result checkRenewal(RedisModuleCtx *ctx, const struct renewal *renewal) {
    return quarantineKeepsRenewal(renewal->now_ms) ? RESULT_STALLED
                                                   : acksReady(ctx, &renewal->replicas);
}

/* NULL: the command replies. */
static struct pendingreply *renewNewAnswer(const struct renewal *renewal) {
    const struct requestSession none = {0};
    return renewal->replicas.count > 0 ? pendingreplyNew(&none, PENDINGREPLY_RENEWAL) : NULL;
}

/* The end of a renewal: begins to wait for the replicas, or drops the pending reply. */
static enum result replyOrAwait(RedisModuleCtx *ctx, const struct renewal *renewal,
                                struct pendingreply *pendingreply, enum result result,
                                const struct outcome *outcome) {
    if (result == RESULT_DONE && pendingreply) {
        return renewAwaitReplicas(ctx, renewal, pendingreply, outcome);
    }
    if (pendingreply) {
        pendingreplyDrop(pendingreply);
    }
    return result;
}

enum result renewLock(RedisModuleCtx *ctx, RedisModuleString *name, const struct renewal *renewal,
                      struct outcome *outcome) {
    struct holds holds;
    enum result ready = checkRenewal(ctx, renewal);
    if (ready != RESULT_DONE) {
        return ready;
    }
    struct pendingreply *pendingreply = renewNewAnswer(renewal);
    ledgerConfirmed(ctx, name, renewal->owner);
    holdsOpenToWrite(&holds, ctx, name, renewal->now_ms);
    enum result result = renewIn(&holds, renewal, pendingreply, outcome);
    holdsClose(&holds);
    if (result == RESULT_DONE) {
        rebind(ctx, name, renewal);
    }
    return replyOrAwait(ctx, renewal, pendingreply, result, outcome);
}

/* ---- several locks ---- */

/* Whether the owner holds all of them. */
static enum result checkAllHeld(const struct multikey *locks, const struct renewal *renewal) {
    enum result result = RESULT_DONE;
    for (size_t i = 0; result == RESULT_DONE && i < locks->count; i++) {
        struct holds *holds = locks->keys[i].holds;
        result = holdingCheck(holds);
        if (result == RESULT_DONE && !holdingIsHeld(holds, renewal->owner)) {
            result = RESULT_NOT_HELD;
        }
        multikeyCloseLeases(locks, &locks->keys[i]);
    }
    return result;
}

/* All of them are open, so none can expire meanwhile. */
static enum result renewOpen(const struct multikey *locks, const struct renewal *renewal,
                             struct pendingreply *pendingreply) {
    enum result result = checkAllHeld(locks, renewal);
    for (size_t i = 0; result == RESULT_DONE && i < locks->count; i++) {
        struct outcome of_one = {0};
        result = renewIn(locks->keys[i].holds, renewal, pendingreply, &of_one);
        multikeyCloseLeases(locks, &locks->keys[i]);
    }
    return result;
}

enum result renewLocks(RedisModuleCtx *ctx, struct multikeyLocks *wanted,
                       const struct renewal *renewal, struct outcome *outcome) {
    enum result ready = checkRenewal(ctx, renewal);
    if (ready != RESULT_DONE) {
        return ready;
    }
    multikeyMakeDistinct(wanted);
    for (size_t i = 0; i < wanted->count; i++) {
        ledgerConfirmed(ctx, wanted->each[i].name, renewal->owner);
    }
    struct multikey *locks = multikeyOpen(ctx, wanted, renewal->now_ms);
    struct pendingreply *pendingreply = renewNewAnswer(renewal);
    enum result result = renewOpen(locks, renewal, pendingreply);
    multikeyClose(locks);
    for (size_t i = 0; result == RESULT_DONE && i < wanted->count; i++) {
        rebind(ctx, wanted->each[i].name, renewal);
    }
    outcome->count = result == RESULT_DONE ? (int64_t)wanted->count : 0;
    return replyOrAwait(ctx, renewal, pendingreply, result, outcome);
}
