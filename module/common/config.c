/* See config.h. A new setting needs a row in one of the two tables below and a function that
 * returns it. */
#include "common/config.h"

#include "common/failpoint.h"

#include <stddef.h>

/* Long enough for any use, and short enough to be added to the wall clock without overflow. */
#define LONGEST_MS 1000000000000000LL

enum numericConfig {
    DEFAULT_LEASE,
    FAIR_RESERVE,
    TOKEN_RETENTION,
    SESSION_GRACE,
    MAX_WAITERS,
    QUARANTINE,
    MAX_LEASE,
    NUMERIC_COUNT
};
enum boolConfig { REDISSON_INTEROP, DEADLOCK_DETECTION, ALLOW_UNLOAD, BOOL_COUNT };

/* Called after all settings of one CONFIG SET have been set. */
static int apply(RedisModuleCtx *ctx, void *row, RedisModuleString **error);

static struct numericRow {
    const char *name;
    long long initial, min, max;
    RedisModuleConfigApplyFunc apply; /* NULL: nothing to do but to store the value */
    long long value;
} numeric[NUMERIC_COUNT] = {
    [DEFAULT_LEASE] = {"default-lease", 30000, 1, LONGEST_MS, apply, 0},
    [FAIR_RESERVE] = {"fair-reserve", 5000, 0, LONGEST_MS, apply, 0},
    [TOKEN_RETENTION] = {"token-retention", 86400000, 1, LONGEST_MS, NULL, 0},
    [SESSION_GRACE] = {"session-grace", 1000, 0, LONGEST_MS, apply, 0},
    [MAX_WAITERS] = {"max-waiters", 0, 0, LONGEST_MS, NULL, 0},
    [QUARANTINE] = {"quarantine", 0, 0, LONGEST_MS, apply, 0},
    [MAX_LEASE] = {"max-lease", 0, 0, LONGEST_MS, apply, 0},
};

static struct boolRow {
    const char *name;
    int initial;
    int value;
} boolean[BOOL_COUNT] = {
    [REDISSON_INTEROP] = {"redisson-interop", 0, 0},
    [DEADLOCK_DETECTION] = {"deadlock-detection", 1, 1},
    [ALLOW_UNLOAD] = {"allow-unload", 0, 0},
};

static long long getNumeric(const char *name, void *row) {
    (void)name;
    return ((struct numericRow *)row)->value;
}

static int setNumeric(const char *name, long long value, void *row, RedisModuleString **error) {
    (void)name;
    (void)error; /* the server has checked the range */
    ((struct numericRow *)row)->value = value;
    return REDISMODULE_OK;
}

static int getBool(const char *name, void *row) {
    (void)name;
    return ((struct boolRow *)row)->value;
}

static int setBool(const char *name, int value, void *row, RedisModuleString **error) {
    (void)name;
    (void)error;
    ((struct boolRow *)row)->value = value;
    return REDISMODULE_OK;
}

/* ---- settings that depend on each other ---- */

static const struct configCalls *calls;

void configConnect(const struct configCalls *config_calls) {
    calls = config_calls;
}

static bool leasesContradict(void) {
    return configMaxLeaseMs() > 0 && configDefaultLeaseMs() > configMaxLeaseMs();
}

static const char leases_contradict[] = "lock.default-lease is longer than lock.max-lease: set "
                                        "both, in redis.conf or in one CONFIG SET";

/* A quarantine is useless if a lease may outlive it. */
static void warnOfQuarantine(RedisModuleCtx *ctx) {
    long long quarantine_ms = configQuarantineMs(), longest_ms = configMaxLeaseMs();
    if (quarantine_ms > 0 && longest_ms == 0) {
        RedisModule_Log(ctx, REDISMODULE_LOGLEVEL_WARNING,
                        "lock.quarantine is %lld ms, and lock.max-lease is not set: a lease may be "
                        "longer, and then two owners can hold a lock after a failover",
                        quarantine_ms);
    } else if (quarantine_ms > 0 && quarantine_ms <= longest_ms) {
        RedisModule_Log(
            ctx, REDISMODULE_LOGLEVEL_WARNING,
            "lock.quarantine (%lld ms) is not longer than lock.max-lease (%lld ms): two "
            "owners can hold a lock after a failover",
            quarantine_ms, longest_ms);
    }
}

static void callFor(RedisModuleCtx *ctx, const struct numericRow *row) {
    if (row == &numeric[QUARANTINE]) {
        calls->quarantine(ctx);
    } else if (row == &numeric[DEFAULT_LEASE] || row == &numeric[SESSION_GRACE]) {
        calls->sessions(ctx);
    } else if (row == &numeric[FAIR_RESERVE]) {
        calls->reserves(ctx);
    }
}

static int apply(RedisModuleCtx *ctx, void *row, RedisModuleString **error) {
    if (leasesContradict()) {
        *error = RedisModule_CreateString(NULL, leases_contradict, sizeof(leases_contradict) - 1);
        return REDISMODULE_ERR;
    }
    if (row == &numeric[QUARANTINE] || row == &numeric[MAX_LEASE]) {
        warnOfQuarantine(ctx);
    }
    callFor(ctx, row);
    return REDISMODULE_OK;
}

static int checkLoaded(RedisModuleCtx *ctx) {
    if (leasesContradict()) {
        RedisModule_Log(ctx, REDISMODULE_LOGLEVEL_WARNING, "%s", leases_contradict);
        return REDISMODULE_ERR;
    }
    warnOfQuarantine(ctx);
    return REDISMODULE_OK;
}

/* ---- loading ---- */

int configLoad(RedisModuleCtx *ctx) {
    for (size_t i = 0; i < NUMERIC_COUNT; i++) {
        struct numericRow *row = &numeric[i];
        if (RedisModule_RegisterNumericConfig(
                ctx, row->name, row->initial, REDISMODULE_CONFIG_DEFAULT, row->min, row->max,
                getNumeric, setNumeric, row->apply, row) == REDISMODULE_ERR) {
            return REDISMODULE_ERR;
        }
    }
    for (size_t i = 0; i < BOOL_COUNT; i++) {
        struct boolRow *row = &boolean[i];
        if (RedisModule_RegisterBoolConfig(ctx, row->name, row->initial, REDISMODULE_CONFIG_DEFAULT,
                                           getBool, setBool, NULL, row) == REDISMODULE_ERR) {
            return REDISMODULE_ERR;
        }
    }
    if (failpointRegister(ctx) != REDISMODULE_OK ||
        RedisModule_LoadConfigs(ctx) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    return checkLoaded(ctx);
}

long long configDefaultLeaseMs(void) {
    return numeric[DEFAULT_LEASE].value;
}

long long configFairReserveMs(void) {
    return numeric[FAIR_RESERVE].value;
}

long long configTokenRetentionMs(void) {
    return numeric[TOKEN_RETENTION].value;
}

long long configQuarantineMs(void) {
    return numeric[QUARANTINE].value;
}

long long configMaxLeaseMs(void) {
    return numeric[MAX_LEASE].value;
}

long long configSessionGraceMs(void) {
    return numeric[SESSION_GRACE].value;
}

long long configMaxWaiters(void) {
    return numeric[MAX_WAITERS].value;
}

bool configRedissonInterop(void) {
    return boolean[REDISSON_INTEROP].value;
}

bool configDeadlockDetection(void) {
    return boolean[DEADLOCK_DETECTION].value;
}

bool configAllowUnload(void) {
    return boolean[ALLOW_UNLOAD].value;
}
