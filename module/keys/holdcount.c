/* See holdcount.h. */
#include "keys/holdcount.h"
#include "keys/holdkey.h"

#include <stddef.h>

#include "keys/ownerfield.h"
#include "server/fieldttl.h"

static bool isSemaphore(const struct holds *holds) {
    return holds->kind == HOLDS_SEMAPHORE;
}

static bool isHoldOf(const struct holds *holds, enum ownerfieldKind kind) {
    return kind == OWNERFIELD_OF_OWNER || (kind == OWNERFIELD_OF_WRITES && !isSemaphore(holds));
}

bool holdcountIsHold(const struct holds *holds, RedisModuleString *field) {
    return isHoldOf(holds, ownerfieldKindOf(field));
}

/* Adds a field with this count to the sum, or with `sign` -1 subtracts it. */
static void holdcountAdd(const struct holds *holds, struct tallySum *sum, enum ownerfieldKind kind,
                         int64_t count, int sign) {
    if (count == 0 || kind == OWNERFIELD_MODE) {
        return;
    }
    if (count < 0 || !isHoldOf(holds, kind)) {
        sum->foreign += sign;
    } else if (kind == OWNERFIELD_OF_WRITES) {
        sum->writers += sign;
    } else {
        sum->owners += sign;
        sum->permits += isSemaphore(holds) ? sign * count : 0;
    }
}

struct counting {
    const struct holds *holds;
    struct tallySum sum;
};

static void holdcountAddField(RedisModuleKey *key, RedisModuleString *field,
                              RedisModuleString *value, void *data) {
    (void)key;
    struct counting *counting = data;
    int64_t count;
    if (!holdkeyParseCount(value, &count)) {
        count = -1;
    }
    holdcountAdd(counting->holds, &counting->sum, ownerfieldKindOf(field), count, 1);
}

static struct tallySum countAll(const struct holds *holds) {
    struct counting counting = {.holds = holds};
    RedisModuleScanCursor *cursor = RedisModule_ScanCursorCreate();
    while (RedisModule_ScanKey(holds->key, cursor, holdcountAddField, &counting)) {
    }
    RedisModule_ScanCursorDestroy(cursor);
    return counting.sum;
}

#ifdef CHECKED

/* The sum of more fields is not checked. */
#define MOST_CHECKED 64

static void holdcountCheck(const struct holds *holds, const struct tallySum *sum) {
    if (holdkeyFieldCount(holds) <= MOST_CHECKED) {
        struct tallySum true_sum = countAll(holds);
        RedisModule_Assert(sum->owners == true_sum.owners && sum->permits == true_sum.permits &&
                           sum->writers == true_sum.writers && sum->foreign == true_sum.foreign);
    }
}

#else

static inline void holdcountCheck(const struct holds *holds, const struct tallySum *sum) {
    (void)holds, (void)sum;
}

#endif

static struct tallyHash holdcountHashOf(const struct holds *holds) {
    return (struct tallyHash){holds->ctx, holds->name, holdkeyFieldCount(holds),
                              isSemaphore(holds)};
}

/* Valid until one ms before the first field expires: the server's time in this command may be one
 * ms ahead of `now_ms`. */
static void holdcountKeep(const struct holds *holds, const struct tallyHash *hash,
                          const struct tallySum *sum) {
    int64_t end_ms = fieldttlFirstEnd(holds->ctx, holds->name, holds->key);
    tallyKeep(hash, sum, end_ms == INT64_MAX ? end_ms : end_ms - 1);
}

/* A handle that only reads does not store the sum: this may be a replica. */
bool holdcountGet(struct holds *holds, struct tallySum *sum) {
    const struct tallyHash hash = holdcountHashOf(holds);
    if (tallyFind(&hash, holds->now_ms, sum)) {
        holdcountCheck(holds, sum);
        return false;
    }
    *sum = countAll(holds);
    if (holds->access == KEY_TO_WRITE) {
        holdcountKeep(holds, &hash, sum);
    }
    return true;
}

void holdcountNote(struct holds *holds, RedisModuleString *field, int64_t before, int64_t now) {
    if (tallyCount() > 0) {
        const struct tallyHash hash = holdcountHashOf(holds);
        enum ownerfieldKind kind = ownerfieldKindOf(field);
        struct tallySum change = {0};
        holdcountAdd(holds, &change, kind, before, -1);
        holdcountAdd(holds, &change, kind, now, 1);
        tallyChange(&hash, &change);
    }
}
