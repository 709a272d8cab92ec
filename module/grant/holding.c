/* See holding.h. */
#include "grant/holding.h"

#include "grant/lockcheck.h"
#include "keys/fence.h"
#include "server/effects.h"
#include "server/failpoint.h"
#include "server/stats.h"
#include "waits/inflight.h"
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

static struct sessionsHold sessionsHoldOf(const struct holds *holds, RedisModuleString *owner) {
    return (struct sessionsHold){RedisModule_GetSelectedDb(holds->ctx), holds->name, owner};
}

/* A first hold inherits nothing from holds that went some other way: neither their binding, nor
 * that they are to be released. */
static void beginAnew(struct holds *holds, const struct acquisition *wants) {
    const struct sessionsHold hold = sessionsHoldOf(holds, wants->owner);
    inflightForget(hold.db, holds->name, wants->owner);
    if (!wants->session) {
        sessionsUnbind(&hold);
    }
}

static void bind(struct holds *holds, const struct acquisition *wants) {
    const struct sessionsHold hold = sessionsHoldOf(holds, wants->owner);
    sessionsBind(holds->ctx, &hold, wants->session, holds->now_ms);
}

int64_t holdingTake(struct holds *holds, const struct acquisition *wants, enum verdict verdict) {
    RedisModule_Assert(verdict == VERDICT_GRANT || verdict == VERDICT_REENTER);
    (void)failpoint(FAILPOINT_TAKE_BEGUN);
    int64_t count = holdsTake(holds, wants->owner, wants->mode, wants->lease_ms);
    if (count == 0) {
        return 0;
    }
    (void)failpoint(FAILPOINT_TAKE_WRITTEN);
    effectsEvent(holds->ctx, holds->name, "lock.granted");
    if (verdict == VERDICT_GRANT) {
        lockcheckAfterGrant(holds, wants->owner, wants->mode);
        beginAnew(holds, wants);
    }
    if (wants->session) {
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
    if (which != HOLDING_ONLY_MODE) {
        *mode = which == HOLDING_READ ? MODE_READ : MODE_WRITE;
        return RESULT_DONE;
    }
    *mode = MODE_EXCLUSIVE;
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

int64_t holdingRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode) {
    (void)failpoint(FAILPOINT_RELEASE_BEGUN);
    int64_t left = holdsRelease(holds, owner, mode);
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
