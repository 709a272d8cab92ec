/* How a request begins to wait: may it, and then into the queues.
 *
 * Works in the selected database of `ctx`.
 */
#ifndef LOCK_QUEUEING_H
#define LOCK_QUEUEING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grant/grantresult.h"
#include "grant/take.h"
#include "redismodule.h"
#include "waits/contended.h"
#include "waits/waiters.h"

/* `block_ms` of a request that does not wait. */
#define QUEUEING_NO_WAIT (-1)

/* One key to wait for. */
struct queueingKey {
    struct holds *holds; /* open */
    struct lock *lock;   /* set by queueingBegin */
    bool first;          /* is to stand at the head (rule 2) */
};

struct queueing {
    const struct take *take;
    enum discipline discipline;
    int64_t block_ms; /* QUEUEING_NO_WAIT, or how long: 0 = for ever */
    int64_t now_ms;
    struct queueingKey *keys;
    size_t key_count;
    struct waiter *own; /* of FAIR: the owner's own position, to be taken over; or NULL */
};

/* Whether a request with this `block_ms` waits if it has to. */
bool queueingMayWait(RedisModuleCtx *ctx, int64_t block_ms);

/* Begins to wait. GRANT_WAITING: the client of `ctx` is blocked and `*waiter` stands in all queues;
 * the caller sees to it that the locks are watched. Or GRANT_BUSY, GRANT_TOO_MANY_WAITERS: nothing
 * is changed. */
enum grantResult queueingBegin(RedisModuleCtx *ctx, const struct queueing *queueing,
                               struct waiter **waiter);

#endif
