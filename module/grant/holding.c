/* See holding.h. */
#include "grant/holding.h"

#include "grant/lockcheck.h"
#include "keys/fence.h"
#include "server/effects.h"
#include "server/failpoint.h"
#include "server/stats.h"
#include "waits/sessions.h"
#include "waits/watches.h"

bool holdingHasSides(const struct acquisition *wants) {
    return wants->fenced || wants->discipline == FAIR || wants->mode != MODE_EXCLUSIVE;
}

enum result holdingCheck(const struct holds *holds) {
    switch (holds->shape) {
    case HOLDS_WRONG_TYPE:
        return RESULT_WRONG_TYPE;
    case HOLDS_MOVING:
        return RESULT_TRY_AGAIN;
    case HOLDS_FREE:
    case HOLDS_PLAIN:
    case HOLDS_READ_WRITE:
    case HOLDS_SEMAPHORE:
    case HOLDS_FOREIGN:
        break;
    }
    return RESULT_DONE;
}

bool holdingIsHeld(struct holds *holds, RedisModuleString *owner) {
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    return !view.foreign && rulesOwnsAny(&view);
}

/* ---- taking ---- */

static enum verdict decide(struct holds *holds, const struct acquisition *wants) {
    const struct rulesRequest request = {wants->mode, wants->permits};
    struct holdsView view;
    holdsSeenBy(holds, wants->owner, &view);
    return rulesDecide(&request, &view);
}

enum verdict holdingDecide(struct holds *holds, const struct acquisition *wants) {
    enum verdict verdict = decide(holds, wants);
    if (!rulesFits(verdict) && holdsMakeRoom(holds, wants->permits.limit - wants->permits.count)) {
        verdict = decide(holds, wants);
    }
    return verdict;
}

static struct sessionsHold sessionsHoldOf(const struct holds *holds, RedisModuleString *owner) {
    return (struct sessionsHold){RedisModule_GetSelectedDb(holds->ctx), holds->name, owner};
}

/* A first hold inherits nothing from holds that went some other way: neither their binding, nor
 * that they are to be released. */
static void beginAnew(struct holds *holds, const struct acquisition *wants) {
    const struct sessionsHold hold = sessionsHoldOf(holds, wants->owner);
    inflightForget(hold.db, holds->name, wants->owner);
    sessionsUnbind(&hold);
}

static void bind(struct holds *holds, const struct acquisition *wants) {
    const struct sessionsHold hold = sessionsHoldOf(holds, wants->owner);
    sessionsBind(holds->ctx, &hold, wants->session, holds->now_ms);
}

int64_t holdingTake(struct holds *holds, const struct acquisition *wants, enum verdict verdict,
                    struct inflight *inflight) {
    RedisModule_Assert(rulesFits(verdict));
    (void)failpoint(FAILPOINT_TAKE_BEGUN);
    bool is_semaphore = wants->mode == MODE_SEMAPHORE;
    const struct holdsRequest request = {.owner = wants->owner,
                                         .mode = wants->mode,
                                         .is_first = verdict == VERDICT_GRANT,
                                         .count = is_semaphore ? wants->permits.count : 1,
                                         .lease_ms = wants->lease_ms};
    int64_t count = holdsTake(holds, &request);
    if (count == 0) {
        return 0;
    }
    (void)failpoint(FAILPOINT_TAKE_WRITTEN);
    effectsEvent(holds->ctx, holds->name, "lock.granted");
    if (verdict != VERDICT_REENTER) {
        lockcheckAfterGrant(holds, wants);
    }
    if (verdict == VERDICT_GRANT) {
        beginAnew(holds, wants);
    }
    if (inflight) {
        const struct inflightTaken taken = {.db = RedisModule_GetSelectedDb(holds->ctx),
                                            .name = holds->name,
                                            .owner = wants->owner,
                                            .mode = wants->mode,
                                            .added = request.count,
                                            .has = count};
        inflightAdd(inflight, &taken);
    } else if (wants->session) {
        bind(holds, wants);
    }
    return wants->fenced ? fenceIssue(holds, wants->owner, verdict == VERDICT_REENTER) : count;
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
                                          [HOLDING_PERMITS] = MODE_SEMAPHORE,
                                          [HOLDING_LOST_PERMITS] = MODE_SEMAPHORE};
    if (which != HOLDING_ONLY_MODE) {
        *mode = modes[which];
        return RESULT_DONE;
    }
    *mode = holds->shape == HOLDS_SEMAPHORE ? MODE_SEMAPHORE : MODE_EXCLUSIVE;
    if (holds->shape != HOLDS_READ_WRITE) {
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

/* The owner has released its last hold in one mode. If it has none in the other either, nothing
 * is bound any more. */
static void unbindIfGone(struct holds *holds, RedisModuleString *owner) {
    if (sessionsCount() == 0) {
        return;
    }
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    if (!rulesOwnsAny(&view)) {
        const struct sessionsHold hold = sessionsHoldOf(holds, owner);
        sessionsUnbind(&hold);
    }
}

bool holdingFrees(enum lockMode mode, int64_t left) {
    return left == 0 || (left > 0 && mode == MODE_SEMAPHORE);
}

int64_t holdingRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode,
                       int64_t count) {
    (void)failpoint(FAILPOINT_RELEASE_BEGUN);
    int64_t left = holdsRelease(holds, owner, mode, count);
    if (left >= 0) {
        statsCount(STATS_RELEASES);
    }
    if (left == 0) {
        unbindIfGone(holds, owner);
        watchesNoteOwner(holds->ctx, holds->name, owner);
        effectsEvent(holds->ctx, holds->name, "lock.released");
        (void)failpoint(FAILPOINT_RELEASE_DONE);
    }
    return left;
}
