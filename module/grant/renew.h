/* Holds that are to stay: LOCK.RENEW, and the look at the lock that LOCK.GUARD begins with. */
#ifndef LOCK_RENEW_H
#define LOCK_RENEW_H

#include <stdint.h>

#include "redismodule.h"
#include "server/reply.h"
#include "waits/acquisition.h"

/* What LOCK.RENEW does with the binding of the holds to a connection. */
enum renewBinding { BINDING_KEEP, BINDING_END, BINDING_NEW };

struct renewal {
    RedisModuleString *owner;
    int64_t lease_ms; /* from now */
    enum renewBinding binding;
    struct acquisitionSession session;   /* of BINDING_NEW: the connection */
    struct acquisitionReplicas replicas; /* which are to have acknowledged it */
    int64_t now_ms;
};

/* Gives the owner's holds of the lock, in the selected database, a new lease, and binds them anew
 * or not any more. RESULT_DONE (`count`: its holds), RESULT_NOT_HELD, or what
 * holdingCheck says. With `replicas` RESULT_WAITING instead of RESULT_DONE, or what acksReady says,
 * and nothing has happened. */
enum result renewLock(RedisModuleCtx *ctx, RedisModuleString *name, const struct renewal *renewal,
                      struct outcome *outcome);

/* Whether the owner holds the lock, in whatever mode: RESULT_DONE, RESULT_NOT_HELD,
 * or what holdingCheck says. Takes nothing away but what is over. */
enum result renewCheck(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                       int64_t now_ms);

#endif
