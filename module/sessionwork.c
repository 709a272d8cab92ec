/* See sessionwork.h.
 *
 * A renewal costs a few µs. So many are done in a turn, and then other clients may speak for a
 * millisecond: the server never stalls, and a hundred thousand bindings are renewed well within the
 * third of the lease that they have.
 */
#include "sessionwork.h"

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "effects.h"
#include "holds.h"
#include "pass.h"
#include "server.h"
#include "sessions.h"
#include "stats.h"

#define BINDINGS_A_TURN 100
#define PAUSE_MS 1

/* Nothing announces the end of a pause or of a load. */
#define RETRY_MS 20

/* Gives all holds of the owner back, and the lock on. */
static void giveBack(RedisModuleCtx *ctx, const struct binding *binding, int64_t now_ms) {
    struct holds holds;
    RedisModule_SelectDb(ctx, binding->db);
    holdsOpen(&holds, ctx, binding->name, now_ms, KEY_TO_WRITE);
    if (holds.shape != HOLDS_WRONG_TYPE && holdsDrop(&holds, binding->owner) > 0) {
        statsCount(STATS_SESSIONS_RELEASED);
        effectsEvent(ctx, binding->name, "lock.released");
        passHandOn(&holds);
    }
    holdsClose(&holds);
}

/* Returns whether the owner still holds the lock. */
static bool renew(RedisModuleCtx *ctx, const struct binding *binding, int64_t now_ms) {
    struct holds holds;
    RedisModule_SelectDb(ctx, binding->db);
    holdsOpen(&holds, ctx, binding->name, now_ms, KEY_TO_WRITE);
    bool holds_it = holdsRenew(&holds, binding->owner, configDefaultLeaseMs()) > 0;
    holdsClose(&holds);
    return holds_it;
}

static bool workOne(RedisModuleCtx *ctx, int64_t now_ms) {
    struct binding *binding = sessionsNextToGiveBack(now_ms);
    if (binding) {
        giveBack(ctx, binding, now_ms);
        sessionsForget(binding);
        return true;
    }
    binding = sessionsNextToRenew(now_ms);
    if (!binding) {
        return false;
    }
    if (renew(ctx, binding, now_ms)) {
        sessionsRenewed(binding, now_ms);
    } else {
        sessionsForget(binding);
    }
    return true;
}

void sessionworkRun(RedisModuleCtx *ctx) {
    int64_t now_ms = RedisModule_Milliseconds();
    switch (serverWritableNow(ctx)) {
    case SERVER_WRITABLE:
        for (int i = 0; i < BINDINGS_A_TURN && workOne(ctx, now_ms); i++) {
        }
        break;
    case SERVER_WRITABLE_LATER:
        sessionsWakeAt(ctx, now_ms + RETRY_MS, now_ms);
        return;
    case SERVER_IS_REPLICA:
        sessionsForgetAll();
        return;
    }
    int64_t due_ms = sessionsNextDue();
    sessionsWakeAt(ctx, due_ms <= now_ms ? now_ms + PAUSE_MS : due_ms, now_ms);
}
