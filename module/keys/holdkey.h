/* The key of a lock, for the files that read and write it: holds.c, leasedholds.c, rwholds.c,
 * semholds.c and holdcount.c. Other folders use holds.h. */
#ifndef LOCK_HOLDKEY_H
#define LOCK_HOLDKEY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/rules.h"
#include "keys/holds.h"
#include "keys/leases.h"
#include "redismodule.h"

/* Whether each hold has a lease of its own. */
static inline bool holdkeyIsLeased(const struct holds *holds) {
    return holds->kind == HOLDS_READ_WRITE || holds->kind == HOLDS_SEMAPHORE;
}

/* When the key expires, unix ms; LEASES_NO_END if never, or if there is no key. */
static inline int64_t holdkeyEnd(const struct holds *holds) {
    bool is_there = holds->kind != HOLDS_FREE && holds->kind != HOLDS_IN_USE;
    mstime_t end = is_there ? RedisModule_GetAbsExpire(holds->key) : REDISMODULE_NO_EXPIRE;
    return end == REDISMODULE_NO_EXPIRE ? LEASES_NO_END : end;
}

/* When a lease of `lease_ms` from now ends, unix ms. The command has checked that this time did not
 * overflow when the request arrived. If it overflows because the request is granted later, the
 * lease ends at the last time before LEASES_NO_END. */
static inline int64_t holdkeyEndAfter(const struct holds *holds, int64_t lease_ms) {
    const int64_t last_ms = LEASES_NO_END - 1;
    return lease_ms < last_ms - holds->now_ms ? holds->now_ms + lease_ms : last_ms;
}

/* Makes the key expire at `end_ms`, unix ms, or never for LEASES_NO_END. */
void holdkeySetEnd(struct holds *holds, int64_t end_ms);

/* The text that the field `mode` contains for this mode; NULL for MODE_EXCLUSIVE. */
const char *holdkeyModeText(enum lockMode mode);

/* The name of the field `mode`, and its text for this mode, as strings that are kept. */
RedisModuleString *holdkeyModeField(void);
RedisModuleString *holdkeyModeValue(enum lockMode mode);

/* Whether `value`, the value of a field, is a count. If so, stores it in `count`. */
static inline bool holdkeyParseCount(RedisModuleString *value, int64_t *count) {
    long long number;
    if (RedisModule_StringToLongLong(value, &number) != REDISMODULE_OK || number < 1 ||
        number > RULES_MAX_HOLDS) {
        return false;
    }
    *count = number;
    return true;
}

/* The text of a count, which may be kept: to be freed with RedisModule_FreeString. */
RedisModuleString *holdkeyCountText(RedisModuleCtx *ctx, int64_t count);

/* Writes a field, and does not propagate it. */
void holdkeyPut(struct holds *holds, RedisModuleString *field, int64_t count);

/* Deletes the key. */
void holdkeyDelete(struct holds *holds);

/* The count in this field; 0 if there is no such field, -1 if the field contains no count. */
int64_t holdkeyCount(struct holds *holds, RedisModuleString *field);

/* How many fields the hash has. */
size_t holdkeyFieldCount(const struct holds *holds);

/* Makes and frees the strings that are kept. Implement holdsBegin and holdsFree. */
void holdkeyBegin(void);
void holdkeyFree(void);

#endif
