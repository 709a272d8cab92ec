/* See config.h. A new config is a row in one of the two tables below and a function that reads it.
 */
#include "server/config.h"

#include "server/failpoint.h"

#include <stddef.h>

/* Long enough for everybody, and added to the time of day it does not overflow. */
#define LONGEST_MS 1000000000000000LL

enum numericConfig {
    DEFAULT_LEASE,
    FAIR_RESERVE,
    TOKEN_RETENTION,
    SESSION_GRACE,
    MAX_WAITERS,
    NUMERIC_COUNT
};
enum boolConfig { REDISSON_INTEROP, DEADLOCK_DETECTION, ALLOW_UNLOAD, BOOL_COUNT };

static struct numericRow {
    const char *name;
    long long initial, min, max;
    long long value;
} numeric[NUMERIC_COUNT] = {
    [DEFAULT_LEASE] = {"default-lease", 30000, 1, LONGEST_MS, 0},
    [FAIR_RESERVE] = {"fair-reserve", 5000, 0, LONGEST_MS, 0},
    [TOKEN_RETENTION] = {"token-retention", 86400000, 1, LONGEST_MS, 0},
    [SESSION_GRACE] = {"session-grace", 1000, 0, LONGEST_MS, 0},
    [MAX_WAITERS] = {"max-waiters", 0, 0, LONGEST_MS, 0},
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

int configLoad(RedisModuleCtx *ctx) {
    for (size_t i = 0; i < NUMERIC_COUNT; i++) {
        struct numericRow *row = &numeric[i];
        if (RedisModule_RegisterNumericConfig(
                ctx, row->name, row->initial, REDISMODULE_CONFIG_DEFAULT, row->min, row->max,
                getNumeric, setNumeric, NULL, row) == REDISMODULE_ERR) {
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
    return failpointRegister(ctx) == REDISMODULE_OK ? RedisModule_LoadConfigs(ctx)
                                                    : REDISMODULE_ERR;
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
