/* See take.h. */
#include "take.h"

#include "effects.h"
#include "fence.h"
#include "sessions.h"

/* A first hold does not inherit the binding of holds that went some other way. */
static void bind(struct holds *holds, const struct take *take, enum verdict verdict) {
    if (take->session) {
        sessionsBind(holds->ctx, holds->name, take->owner, take->session, holds->now_ms);
    } else if (verdict == VERDICT_GRANT) {
        sessionsUnbind(RedisModule_GetSelectedDb(holds->ctx), holds->name, take->owner);
    }
}

int64_t takeHold(struct holds *holds, const struct take *take, enum verdict verdict) {
    int64_t count = holdsTake(holds, take->owner, take->mode, take->lease_ms);
    if (count == 0) {
        return 0;
    }
    effectsEvent(holds->ctx, holds->name, "lock.granted");
    bind(holds, take, verdict);
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
