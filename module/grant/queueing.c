/* See queueing.h. */
#include "grant/queueing.h"

#include "server/server.h"
#include "waits/events.h"

bool queueingMayWait(RedisModuleCtx *ctx, int64_t block_ms) {
    return block_ms != QUEUEING_NO_WAIT && serverMayBlock(ctx);
}

static struct waiter *block(RedisModuleCtx *ctx, const struct queueing *queueing) {
    const struct take *take = queueing->take;
    struct waitersSpec spec = {
        .owner = take->owner,
        .mode = take->mode,
        .discipline = queueing->discipline,
        .session = take->session,
        .fenced = take->fenced,
        .lease_ms = take->lease_ms,
        .block_ms = queueing->block_ms,
        .now_ms = queueing->now_ms,
        .key_count = queueing->key_count,
    };
    eventsWatchKeys(ctx);
    contendedWatchSlots(ctx);
    return waitersBlock(ctx, &spec);
}

static void stand(RedisModuleCtx *ctx, const struct queueing *queueing, struct waiter *waiter) {
    if (queueing->own) {
        waitersTakeOver(ctx, queueing->own, waiter);
        return;
    }
    for (size_t i = 0; i < queueing->key_count; i++) {
        const struct queueingKey *key = &queueing->keys[i];
        waitersStandIn(waiter, i, key->lock, key->first);
    }
}

static void findLocks(RedisModuleCtx *ctx, const struct queueing *queueing) {
    int db = RedisModule_GetSelectedDb(ctx);
    for (size_t i = 0; i < queueing->key_count; i++) {
        queueing->keys[i].lock = contendedFindOrMake(db, queueing->keys[i].holds->name);
    }
}

enum grantResult queueingBegin(RedisModuleCtx *ctx, const struct queueing *queueing,
                               struct waiter **waiter) {
    if (!queueingMayWait(ctx, queueing->block_ms)) {
        return GRANT_BUSY;
    }
    bool replaces_client = queueing->own && queueing->own->bc;
    if (!replaces_client && !waitersHaveRoom()) {
        return GRANT_TOO_MANY_WAITERS;
    }
    *waiter = block(ctx, queueing);
    if (!*waiter) {
        return GRANT_BUSY;
    }
    findLocks(ctx, queueing);
    stand(ctx, queueing, *waiter);
    waitersBegin(ctx, *waiter);
    return GRANT_WAITING;
}
