/* See holding.h. */
#include "grant/holding.h"

#include "common/failpoint.h"
#include "common/propagate.h"
#include "common/quarantine.h"
#include "grant/lockcheck.h"
#include "keys/fence.h"
#include "ledger/ledger.h"

enum result holdingCheck(const struct holds *holds) {
    switch (holds->kind) {
    case HOLDS_WRONG_TYPE:
        return RESULT_WRONG_TYPE;
    case HOLDS_MOVING:
        return RESULT_TRY_AGAIN;
    case HOLDS_IN_USE:
        return RESULT_KEY_IN_USE;
    case HOLDS_FREE:
    case HOLDS_PLAIN:
    case HOLDS_READ_WRITE:
    case HOLDS_SEMAPHORE:
    case HOLDS_FOREIGN:
        break;
    }
    return RESULT_DONE;
}

enum result holdingCheckSides(struct holds *holds, const struct request *wants) {
    bool is_leased = wants->lock.mode != MODE_EXCLUSIVE;
    enum result result = is_leased ? holdsCanLease(holds) : RESULT_DONE;
    return result == RESULT_DONE && wants->fenced ? fenceCheck(holds->ctx, holds->name) : result;
}

bool holdingIsHeld(struct holds *holds, RedisModuleString *owner) {
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    return rulesOwnsAny(&view);
}

enum result holdingCheckOwner(RedisModuleCtx *ctx, RedisModuleString *name,
                              RedisModuleString *owner, int64_t now_ms) {
    struct holds holds;
    ledgerConfirmed(ctx, name, owner);
    holdsOpenToWrite(&holds, ctx, name, now_ms);
    enum result result = holdingCheck(&holds);
    if (result == RESULT_DONE && !holdingIsHeld(&holds, owner)) {
        result = RESULT_NOT_HELD;
    }
    holdsClose(&holds);
    return result;
}

/* ---- acquiring ---- */

/* Whether the request fits the holds. */
static enum verdict decideByHolds(struct holds *holds, const struct request *wants) {
    struct holdsView view;
    holdsSeenBy(holds, wants->owner, &view);
    enum verdict verdict = rulesDecide(&wants->lock, &view);
    if (holds->kind != HOLDS_SEMAPHORE || rulesFits(verdict) ||
        !holdsMakeRoom(holds, wants->lock.permits.limit - rulesLacks(&wants->lock, &view))) {
        return verdict;
    }
    holdsSeenBy(holds, wants->owner, &view);
    return rulesDecide(&wants->lock, &view);
}

enum verdict holdingDecide(struct holds *holds, const struct request *wants) {
    enum verdict verdict = decideByHolds(holds, wants);
    bool is_kept = rulesFits(verdict) && quarantineKeeps(holds->ctx, holds->now_ms);
    return is_kept ? VERDICT_WAIT : verdict;
}

/* How many of them the grant has to add. */
static int64_t lacks(struct holds *holds, const struct request *wants, enum verdict verdict) {
    if (verdict == VERDICT_HELD) {
        return 0;
    }
    bool has_some = wants->lock.once && verdict == VERDICT_ADD;
    return requestCount(wants) - (has_some ? holdsCount(holds, wants->owner) : 0);
}

/* Writes the hold into the key. Returns how many the owner has now; 0 if that would be too many. */
static int64_t holdingWrite(struct holds *holds, const struct holdsGrant *grant,
                            enum verdict verdict) {
    (void)failpoint(FAILPOINT_TAKE_BEGUN);
    if (verdict == VERDICT_HELD) {
        return holdsLengthen(holds, grant);
    }
    int64_t has = holdsTake(holds, grant);
    if (has > 0) {
        (void)failpoint(FAILPOINT_TAKE_WRITTEN);
        propagateEvent(holds->ctx, holds->name, "lock.granted");
    }
    return has;
}

int64_t holdingTake(struct holds *holds, const struct request *wants, enum verdict verdict,
                    struct pendingreply *pendingreply) {
    RedisModule_Assert(rulesFits(verdict));
    RedisModule_Assert(!featuresHas(FEATURE_QUARANTINE) || !quarantineIsOn());
    const struct holdsGrant grant = {.owner = wants->owner,
                                     .mode = wants->lock.mode,
                                     .is_first = verdict == VERDICT_GRANT,
                                     .count = lacks(holds, wants, verdict),
                                     .lease_ms = wants->lease_ms};
    int64_t has = holdingWrite(holds, &grant, verdict);
    if (has == 0) {
        return 0;
    }
    if (verdict != VERDICT_REENTER && verdict != VERDICT_HELD) {
        lockcheckAfterGrant(holds, wants);
    }
    const struct ledgerGrant taken = {.is_first = grant.is_first,
                                      .added = grant.count,
                                      .has = has,
                                      .count = requestCount(wants),
                                      .pendingreply = pendingreply};
    ledgerTaken(holds, wants, &taken);
    if (!wants->fenced) {
        return has;
    }
    bool has_token = verdict == VERDICT_REENTER || verdict == VERDICT_HELD;
    return fenceIssue(holds, wants->owner, has_token);
}

enum statsCounter holdingCountedAs(enum verdict verdict) {
    if (verdict == VERDICT_HELD) {
        return STATS_REPEATS;
    }
    return verdict == VERDICT_REENTER ? STATS_GRANTED_BY_REENTRY : STATS_GRANTED_AT_ONCE;
}

/* ---- releasing ---- */

enum result holdingModeOf(struct holds *holds, RedisModuleString *owner, enum holdingWhich which,
                          enum lockMode *mode) {
    enum result checked = holdingCheck(holds);
    if (checked != RESULT_DONE) {
        return checked;
    }
    static const enum lockMode modes[] = {[HOLDING_READ] = MODE_READ,
                                          [HOLDING_WRITE] = MODE_WRITE,
                                          [HOLDING_PERMITS] = MODE_SEMAPHORE};
    if (which != HOLDING_ONLY_MODE) {
        *mode = modes[which];
        return RESULT_DONE;
    }
    *mode = holds->kind == HOLDS_SEMAPHORE ? MODE_SEMAPHORE : MODE_EXCLUSIVE;
    if (holds->kind != HOLDS_READ_WRITE) {
        return RESULT_DONE;
    }
    *mode = MODE_READ;
    if (holds->mode == MODE_READ) {
        return RESULT_DONE;
    }
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    *mode = view.own[MODE_WRITE] > 0 ? MODE_WRITE : MODE_READ;
    return view.own[MODE_READ] > 0 && view.own[MODE_WRITE] > 0 ? RESULT_BOTH_MODES : RESULT_DONE;
}

int64_t holdingRelease(struct holds *holds, const struct holdingRelease *release) {
    (void)failpoint(FAILPOINT_RELEASE_BEGUN);
    int64_t left = holdsRelease(holds, release->owner, release->mode, release->count);
    if (left < 0) {
        return left;
    }
    const struct ledgerRelease released = {release->mode, release->count, left, release->is_lost};
    statsCount(STATS_RELEASES);
    ledgerReleased(holds, release->owner, &released);
    if (left == 0) {
        propagateEvent(holds->ctx, holds->name, "lock.released");
        (void)failpoint(FAILPOINT_RELEASE_DONE);
    }
    return left;
}
