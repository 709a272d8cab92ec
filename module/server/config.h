/* The configuration of the module: `lock.…` in CONFIG GET/SET and redis.conf. All of it can be
 * changed at runtime. */
#ifndef LOCK_CONFIG_H
#define LOCK_CONFIG_H

#include <stdbool.h>

#include "redismodule.h"

/* What is called when a setting has changed on which running timers depend; not for the values at
 * load. */
struct configCalls {
    void (*quarantine)(RedisModuleCtx *ctx); /* lock.quarantine */
    void (*sessions)(RedisModuleCtx *ctx);   /* lock.default-lease, lock.session-grace */
    void (*reserves)(RedisModuleCtx *ctx);   /* lock.fair-reserve */
};

/* Sets what is called. To be called once, before configLoad. */
void configConnect(const struct configCalls *calls);

/* Registers the settings, and reads what redis.conf or the loadmodule line says. Returns
 * REDISMODULE_OK; or REDISMODULE_ERR if a value is refused, and the log says why. */
int configLoad(RedisModuleCtx *ctx);

/* lock.default-lease: how long a hold lives if the command gives no lease, ms. */
long long configDefaultLeaseMs(void);

/* lock.fair-reserve: how long a fair waiter's position is kept after its connection has closed,
 * ms. */
long long configFairReserveMs(void);

/* lock.token-retention: how long a lock's last fencing token is kept after its last use, ms. */
long long configTokenRetentionMs(void);

/* lock.quarantine: how long nothing is granted after the data has been loaded, or after a
 * promotion, ms. Code that grants asks quarantine.h instead. */
long long configQuarantineMs(void);

/* lock.max-lease: the longest lease that may be requested, ms; 0 = any. */
long long configMaxLeaseMs(void);

/* lock.session-grace: after how long the holds of a closed connection are released, ms. */
long long configSessionGraceMs(void);

/* lock.max-waiters: how many clients may wait on the whole node; 0 = no limit. */
long long configMaxWaiters(void);

/* lock.redisson-interop: whether a lock that becomes free is announced on Redisson's channel. */
bool configRedissonInterop(void);

/* lock.deadlock-detection: whether a wait that would close a cycle is refused. */
bool configDeadlockDetection(void);

/* lock.allow-unload: if not, MODULE UNLOAD is always refused. */
bool configAllowUnload(void);

#endif
