/* Acquiring one lock, at once or after a wait.
 *
 * Works in the selected database of `ctx` and with the time `now_ms` that the caller read once.
 */
#ifndef LOCK_ACQUIRE_H
#define LOCK_ACQUIRE_H

#include <stdint.h>

#include "core/waitqueue.h"
#include "grant/grantresult.h"
#include "grant/take.h"
#include "redismodule.h"

struct acquireRequest {
    RedisModuleString *name;
    struct take take;
    enum discipline discipline; /* PLAIN, ORDERED or FAIR */
    int64_t block_ms;           /* QUEUEING_NO_WAIT, or how long it waits: 0 = for ever */
    int64_t now_ms;
};

/* Acquires, or begins to wait. On GRANT_DONE `count` is the owner's hold count in this mode, or the
 * fencing token. Every result but GRANT_DONE and GRANT_WAITING leaves everything as it was. */
enum grantResult acquireLock(RedisModuleCtx *ctx, const struct acquireRequest *request,
                             struct grantOutcome *outcome);

#endif
