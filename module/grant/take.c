/* See take.h. */
#include "grant/take.h"

#include "grant/lockcheck.h"
#include "keys/fence.h"
#include "server/effects.h"
#include "server/failpoint.h"
#include "waits/inflight.h"
#include "waits/sessions.h"

bool takeHasSides(const struct take *take, enum discipline discipline) {
    return take->fenced || discipline == FAIR || take->mode != MODE_EXCLUSIVE;
}

enum grantResult takeCheckKey(const struct holds *holds) {
    switch (holds->shape) {
    case HOLDS_WRONG_TYPE:
        return GRANT_WRONG_TYPE;
    case HOLDS_MOVING:
        return GRANT_TRY_AGAIN;
    case HOLDS_FREE:
    case HOLDS_PLAIN:
    case HOLDS_READ_WRITE:
    case HOLDS_FOREIGN:
        break;
    }
    return GRANT_DONE;
}

/* A first hold inherits nothing from holds that went some other way: neither their binding, nor
 * that they are to be released. */
static void beginAnew(struct holds *holds, const struct take *take) {
    int db = RedisModule_GetSelectedDb(holds->ctx);
    inflightForget(db, holds->name, take->owner);
    if (!take->session) {
        sessionsUnbind(db, holds->name, take->owner);
    }
}

int64_t takeHold(struct holds *holds, const struct take *take, enum verdict verdict) {
    RedisModule_Assert(verdict == VERDICT_GRANT || verdict == VERDICT_REENTER);
    (void)failpoint(FAILPOINT_TAKE_BEGUN);
    int64_t count = holdsTake(holds, take->owner, take->mode, take->lease_ms);
    if (count == 0) {
        return 0;
    }
    (void)failpoint(FAILPOINT_TAKE_WRITTEN);
    effectsEvent(holds->ctx, holds->name, "lock.granted");
    if (verdict == VERDICT_GRANT) {
        lockcheckAfterGrant(holds, take->owner, take->mode);
        beginAnew(holds, take);
    }
    if (take->session) {
        sessionsBind(holds->ctx, holds->name, take->owner, take->session, holds->now_ms);
    }
    return take->fenced ? fenceIssue(holds->ctx, holds->name, take->owner,
                                     verdict == VERDICT_REENTER, holds->now_ms)
                        : count;
}

struct take takeOfWaiter(const struct waiter *waiter) {
    return (struct take){.owner = waiter->owner,
                         .mode = waiter->request.mode,
                         .lease_ms = waiter->lease_ms,
                         .session = waiter->session ? waiter->client_id : 0,
                         .fenced = waiter->fenced};
}
