/* See giveback.h. */
#include "grant/giveback.h"

#include "grant/take.h"
#include "server/effects.h"
#include "server/failpoint.h"
#include "server/stats.h"
#include "waits/sessions.h"

enum grantResult givebackMode(struct holds *holds, RedisModuleString *owner,
                              enum releaseWhich which, enum lockMode *mode) {
    enum grantResult checked = takeCheckKey(holds);
    if (checked != GRANT_DONE) {
        return checked;
    }
    if (which != RELEASE_ONLY_MODE) {
        *mode = which == RELEASE_READ ? MODE_READ : MODE_WRITE;
        return GRANT_DONE;
    }
    *mode = MODE_EXCLUSIVE;
    if (holds->shape != HOLDS_READ_WRITE) {
        return GRANT_DONE;
    }
    *mode = MODE_READ;
    if (holds->mode == MODE_READ) {
        return GRANT_DONE;
    }
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    *mode = view.own[MODE_WRITE] > 0 ? MODE_WRITE : MODE_READ;
    return view.own[MODE_READ] > 0 && view.own[MODE_WRITE] > 0 ? GRANT_BOTH_MODES : GRANT_DONE;
}

/* The owner has given the last hold in one mode back. If it has none in the other either, nothing
 * is bound any more. */
static void unbindIfGone(struct holds *holds, RedisModuleString *owner) {
    if (sessionsCount() == 0) {
        return;
    }
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    if (!rulesOwnsAny(&view)) {
        sessionsUnbind(RedisModule_GetSelectedDb(holds->ctx), holds->name, owner);
    }
}

int64_t givebackHold(struct holds *holds, RedisModuleString *owner, enum lockMode mode) {
    (void)failpoint(FAILPOINT_RELEASE_BEGUN);
    int64_t left = holdsRelease(holds, owner, mode);
    if (left >= 0) {
        statsCount(STATS_RELEASES);
    }
    if (left == 0) {
        unbindIfGone(holds, owner);
        effectsEvent(holds->ctx, holds->name, "lock.released");
        (void)failpoint(FAILPOINT_RELEASE_DONE);
    }
    return left;
}
