/* LOCK.RENEW and LOCK.MRENEW. */
#ifndef LOCK_RENEW_H
#define LOCK_RENEW_H

#include <stdint.h>

#include "common/reply.h"
#include "grant/multikey.h"
#include "redismodule.h"
#include "waits/request.h"

/* What a renewal does with the binding of the holds to a connection. */
enum renewBinding { BINDING_KEEP, BINDING_END, BINDING_NEW };

struct renewal {
    RedisModuleString *owner;
    int64_t lease_ms; /* from now */
    enum renewBinding binding;
    struct requestSession session;   /* for BINDING_NEW, the connection */
    struct requestReplicas replicas; /* which must acknowledge the renewal */
    int64_t now_ms;
};

/* Gives the owner's holds of the lock, in the selected database, a new lease. Depending on
 * `binding`, binds them to a connection or removes their binding. RESULT_DONE, with the owner's
 * hold count as `count`; RESULT_NOT_HELD, RESULT_STALLED, or what holdingCheck returns. With
 * `replicas`, returns RESULT_WAITING instead of RESULT_DONE; or what acksReady returns, and in that
 * case nothing has changed. */
enum result renewLock(RedisModuleCtx *ctx, RedisModuleString *name, const struct renewal *renewal,
                      struct outcome *outcome);

/* The same for several locks, all or none. Removes duplicates from `wanted` (multikeyMakeDistinct);
 * the modes are not used, because all holds of the owner are renewed. With RESULT_DONE, `count` is
 * the number of locks. */
enum result renewLocks(RedisModuleCtx *ctx, struct multikeyLocks *wanted,
                       const struct renewal *renewal, struct outcome *outcome);

#endif
