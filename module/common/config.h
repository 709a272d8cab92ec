/* The settings of the module, which are named `lock.…` in CONFIG GET, CONFIG SET and redis.conf.
 * All of them can be changed at runtime. */
#ifndef LOCK_CONFIG_H
#define LOCK_CONFIG_H

#include <stdbool.h>

#include "redismodule.h"

/* Functions that are called when a setting on which running timers depend has changed. They are not
 * called for the values at load. */
struct configCalls {
    void (*quarantine)(RedisModuleCtx *ctx); /* lock.quarantine */
    void (*sessions)(RedisModuleCtx *ctx);   /* lock.default-lease, lock.session-grace */
    void (*reserves)(RedisModuleCtx *ctx);   /* lock.fair-reserve */
};

/* Sets these functions. To be called once, before configLoad. */
void configConnect(const struct configCalls *calls);

/* Registers the settings, and reads their values from redis.conf and the loadmodule line. Returns
 * REDISMODULE_OK. If a value is refused, logs the reason and returns REDISMODULE_ERR. */
int configLoad(RedisModuleCtx *ctx);

/* lock.default-lease: the lease of a hold if the command gives none, ms. */
long long configDefaultLeaseMs(void);

/* lock.fair-reserve: how long a fair waiter's position is kept after its connection has closed,
 * ms. */
long long configFairReserveMs(void);

/* lock.token-retention: how long a lock's last fencing token is kept after its last use, ms. */
long long configTokenRetentionMs(void);

/* lock.quarantine: how long nothing is granted after the data has been loaded, or after a
 * promotion, ms. Code that grants uses quarantine.h instead. */
long long configQuarantineMs(void);

/* lock.max-lease: the longest lease that may be requested, ms; 0 = no limit. */
long long configMaxLeaseMs(void);

/* lock.session-grace: after how long the holds of a closed connection are released, ms. */
long long configSessionGraceMs(void);

/* lock.max-waiters: how many clients may wait on the whole node; 0 = no limit. */
long long configMaxWaiters(void);

/* lock.redisson-interop: whether a lock that becomes free is announced on Redisson's channel. */
bool configRedissonInterop(void);

/* lock.deadlock-detection: whether a wait that would close a cycle is refused. */
bool configDeadlockDetection(void);

/* lock.allow-unload: whether MODULE UNLOAD is allowed. If not, it is always refused. */
bool configAllowUnload(void);

#endif
