/* The module's configs: `lock.…` in CONFIG GET/SET and redis.conf, every one live. */
#ifndef LOCK_CONFIG_H
#define LOCK_CONFIG_H

#include <stdbool.h>

#include "redismodule.h"

/* What is called when a config has been changed that running times depend on; not for what it is at
 * load. */
struct configCalls {
    void (*quarantine)(RedisModuleCtx *ctx); /* lock.quarantine */
    void (*sessions)(RedisModuleCtx *ctx);   /* lock.default-lease, lock.session-grace */
    void (*reserves)(RedisModuleCtx *ctx);   /* lock.fair-reserve */
};

/* Says so, once before configLoad. */
void configConnect(const struct configCalls *calls);

/* Registers them and reads what redis.conf or the loadmodule line says. Returns REDISMODULE_OK, or
 * REDISMODULE_ERR when a value is refused; the log says why. */
int configLoad(RedisModuleCtx *ctx);

/* lock.default-lease: ms that a hold lives when the command names no lease. */
long long configDefaultLeaseMs(void);

/* lock.fair-reserve: ms that a fair waiter's position is kept when its connection closes. */
long long configFairReserveMs(void);

/* lock.token-retention: ms that a lock's last fencing token is kept after its last use. */
long long configTokenRetentionMs(void);

/* lock.quarantine: ms after the data has been loaded, or a promotion, in which nothing is granted;
 * who grants asks quarantine.h. */
long long configQuarantineMs(void);

/* lock.max-lease: ms of the longest lease that may be asked for; 0 = any. */
long long configMaxLeaseMs(void);

/* lock.session-grace: ms after which the holds of a closed connection are released. */
long long configSessionGraceMs(void);

/* lock.max-waiters: how many clients may wait on the whole node; 0 = no limit. */
long long configMaxWaiters(void);

/* lock.redisson-interop: whether a lock that becomes free is announced on Redisson's channel. */
bool configRedissonInterop(void);

/* lock.deadlock-detection: whether a wait that would close a cycle is refused. */
bool configDeadlockDetection(void);

/* lock.allow-unload: whether MODULE UNLOAD is not refused outright. */
bool configAllowUnload(void);

#endif
