/* See queueing.h. */
#include "queueing.h"

#include "deadlock.h"
#include "events.h"
#include "mem.h"
#include "server.h"

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

/* Nobody has come: locks that were made for this request go again. */
static void dropLocks(RedisModuleCtx *ctx, const struct queueing *queueing) {
    for (size_t i = 0; i < queueing->key_count; i++) {
        contendedDropIfIdle(ctx, queueing->keys[i].lock);
    }
}

/* Where somebody is in the way. */
static void addQueues(const struct queueing *queueing, struct deadlockWait *wait) {
    for (size_t i = 0; i < queueing->key_count; i++) {
        const struct queueingKey *key = &queueing->keys[i];
        if (key->held) {
            continue;
        }
        if (wait->queue_count == 0) {
            wait->holds = key->holds;
        }
        wait->queues[wait->queue_count++] = &key->lock->queue;
    }
}

static RedisModuleString *circleOf(RedisModuleCtx *ctx, const struct queueing *queueing) {
    struct waitqueue *one = NULL;
    struct waitqueue **many =
        queueing->key_count > 1 ? memAlloc(queueing->key_count * sizeof(*many)) : NULL;
    struct deadlockWait wait = {
        .owner = queueing->take->owner,
        .mode = queueing->take->mode,
        .discipline = queueing->discipline,
        .queues = many ? many : &one,
        .first = queueing->key_count == 1 && queueing->keys[0].first,
    };
    addQueues(queueing, &wait);
    RedisModuleString *circle = deadlockFind(ctx, &wait);
    memFree(many);
    return circle;
}

enum grantResult queueingBegin(RedisModuleCtx *ctx, const struct queueing *queueing,
                               struct waiter **waiter, struct grantOutcome *outcome) {
    if (!queueingMayWait(ctx, queueing->block_ms)) {
        return GRANT_BUSY;
    }
    bool replaces_client = queueing->own && queueing->own->bc;
    if (!replaces_client && !waitersHaveRoom()) {
        return GRANT_TOO_MANY_WAITERS;
    }
    findLocks(ctx, queueing);
    bool later = deadlockIsSoughtLater();
    outcome->circle = later ? NULL : circleOf(ctx, queueing);
    *waiter = outcome->circle ? NULL : block(ctx, queueing);
    if (!*waiter) {
        dropLocks(ctx, queueing);
        return outcome->circle ? GRANT_DEADLOCK : GRANT_BUSY;
    }
    stand(ctx, queueing, *waiter);
    waitersBegin(ctx, *waiter, later);
    return GRANT_WAITING;
}
