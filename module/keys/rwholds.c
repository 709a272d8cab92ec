/* See rwholds.h. */
#include "keys/rwholds.h"

#include <stddef.h>
#include <string.h>

#include "server/effects.h"
#include "server/stats.h"

/* So many dead readers are taken away whenever the lock is opened: some 200 µs. */
#define MOST_PRUNED 64

#define WRITE_SUFFIX ":write"
#define WRITE_SUFFIX_LENGTH (sizeof(WRITE_SUFFIX) - 1)

/* ---- fields ---- */

/* The field of the owner's holds in this mode; free it with RedisModule_FreeString. */
static RedisModuleString *fieldOf(struct holds *holds, RedisModuleString *owner,
                                  enum lockMode mode) {
    if (mode == MODE_READ) {
        RedisModule_RetainString(holds->ctx, owner);
        return owner;
    }
    RedisModuleString *field = RedisModule_CreateStringFromString(holds->ctx, owner);
    RedisModule_StringAppendBuffer(holds->ctx, field, WRITE_SUFFIX, WRITE_SUFFIX_LENGTH);
    return field;
}

static bool isWriteField(const char *bytes, size_t length) {
    return length > WRITE_SUFFIX_LENGTH &&
           memcmp(bytes + length - WRITE_SUFFIX_LENGTH, WRITE_SUFFIX, WRITE_SUFFIX_LENGTH) == 0;
}

static int64_t countOf(struct holds *holds, RedisModuleString *owner, enum lockMode mode) {
    RedisModuleString *field = fieldOf(holds, owner, mode);
    int64_t count = holdsCount(holds, field);
    RedisModule_FreeString(holds->ctx, field);
    return count;
}

static bool isModeField(const char *bytes, size_t length) {
    return length == 4 && memcmp(bytes, "mode", 4) == 0;
}

static void setMode(struct holds *holds, enum lockMode mode) {
    const char *text = holdsModeText(mode);
    RedisModuleString *value = RedisModule_CreateString(holds->ctx, text, strlen(text));
    RedisModule_HashSet(holds->key, REDISMODULE_HASH_CFIELDS, "mode", value, NULL);
    RedisModule_FreeString(holds->ctx, value);
    holds->mode = mode;
    effectsMode(holds->ctx, holds->name, text);
}

/* ---- leases ---- */

struct leases *rwholdsLeases(struct holds *holds) {
    if (!holds->leases.name) {
        const struct leasesLock lock = {holds->ctx, holds->name, holdsKeyEnd(holds)};
        leasesOpen(&holds->leases, &lock, holds->access);
    }
    return &holds->leases;
}

/* The key ends with the last lease, which ends at `end_ms`. */
static void endAt(struct holds *holds, int64_t end_ms) {
    if (end_ms != holdsKeyEnd(holds)) {
        holdsSetKeyEnd(holds, end_ms);
    }
    if (end_ms != rwholdsLeases(holds)->key_end_ms) {
        leasesSetKeyEnd(rwholdsLeases(holds), end_ms);
    }
}

static void settleEnd(struct holds *holds) {
    endAt(holds, leasesLastEnd(rwholdsLeases(holds)));
}

static void copyEnd(RedisModuleKey *key, RedisModuleString *field, RedisModuleString *value,
                    void *data) {
    (void)key;
    (void)value;
    struct holds *holds = data;
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(field, &length);
    if (!isModeField(bytes, length)) {
        leasesSet(rwholdsLeases(holds), field, holdsKeyEnd(holds));
    }
}

/* Before a lease of its own is written to a stale set: everybody's ends with the key, and that is
 * written down. */
static void refreshStale(struct holds *holds) {
    struct leases *leases = rwholdsLeases(holds);
    if (!leasesAreStale(leases) || leasesIsWrongType(leases)) {
        return;
    }
    leasesClear(leases);
    RedisModuleScanCursor *cursor = RedisModule_ScanCursorCreate();
    while (RedisModule_ScanKey(holds->key, cursor, copyEnd, holds)) {
    }
    RedisModule_ScanCursorDestroy(cursor);
    leasesSetKeyEnd(leases, holdsKeyEnd(holds));
}

/* How many fields are holds. */
static size_t holdFields(struct holds *holds) {
    return holdsFieldCount(holds) - 1; /* one is `mode` */
}

static void removeBoth(struct holds *holds) {
    leasesClear(rwholdsLeases(holds));
    holdsDelete(holds);
}

/* The last hold in this field is gone, others are left. Without a writer the lock goes on as a read
 * lock. */
static void removeField(struct holds *holds, RedisModuleString *field, bool is_write) {
    RedisModule_HashSet(holds->key, REDISMODULE_HASH_NONE, field, REDISMODULE_HASH_DELETE, NULL);
    effectsFieldGone(holds->ctx, holds->name, field);
    leasesRemove(rwholdsLeases(holds), field);
    if (is_write) {
        setMode(holds, MODE_READ);
    }
}

/* Whether all leases are over, of holds that have not been taken away yet. While the lock has a
 * living holder the last lease is his or of somebody who lives too. */
static bool onlyDeadAreLeft(struct holds *holds) {
    return holds->has_dead && leasesLastEnd(rwholdsLeases(holds)) <= holds->now_ms;
}

/* The last hold in this field is gone; without any the lock is free. */
static void removeHold(struct holds *holds, RedisModuleString *field, bool is_write) {
    if (holdFields(holds) == 1) {
        removeBoth(holds);
        return;
    }
    refreshStale(holds);
    removeField(holds, field, is_write);
    if (onlyDeadAreLeft(holds)) {
        removeBoth(holds);
    }
}

/* Takes away the hold in this field, whose lease is over. */
static void removeDead(struct holds *holds, RedisModuleString *field) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(field, &length);
    if (holdsCount(holds, field) == 0) {
        leasesRemove(rwholdsLeases(holds), field); /* somebody has taken the hold away by hand */
        return;
    }
    removeHold(holds, field, isWriteField(bytes, length));
    statsCount(STATS_LEASE_ENDS);
    effectsEvent(holds->ctx, holds->name, "lock.expired");
}

/* Takes away what is over; of readers not more than MOST_PRUNED. A dead writer always goes, because
 * the lock's mode tells of him. */
static void prune(struct holds *holds) {
    RedisModuleString *field;
    int pruned = 0;
    while (holds->shape == HOLDS_READ_WRITE &&
           (field = leasesFirstOver(rwholdsLeases(holds), holds->now_ms))) {
        holds->has_dead = holds->mode == MODE_READ && pruned == MOST_PRUNED;
        if (!holds->has_dead) {
            removeDead(holds, field);
            pruned++;
        }
        RedisModule_FreeString(holds->ctx, field);
        if (holds->has_dead) {
            break;
        }
    }
    if (pruned > 0 && holds->shape == HOLDS_READ_WRITE) {
        settleEnd(holds);
    }
}

/* Before an owner is asked for: if its own hold is among the dead that are left, it goes now. */
static void pruneOwn(struct holds *holds, RedisModuleString *owner) {
    if (holds->has_dead && holdsCount(holds, owner) > 0 &&
        leasesEndOf(rwholdsLeases(holds), owner) <= holds->now_ms) {
        removeDead(holds, owner);
    }
}

void rwholdsOpen(struct holds *holds) {
    /* The only hold there is ends with the key. */
    bool is_only = holdFields(holds) == 1 && leasesLength(rwholdsLeases(holds)) <= 1;
    if (holds->access == KEY_TO_WRITE && !is_only) {
        prune(holds);
    }
}

/* ---- what holds.h promises ---- */

/* Whether anybody else than this owner, who has so many fields, holds the lock. */
static bool othersHold(struct holds *holds, RedisModuleString *owner, size_t own_fields) {
    struct leases *leases = rwholdsLeases(holds);
    /* A hold that somebody has written by hand has no lease, and lives as long as the key. */
    if (!holds->has_dead || holdFields(holds) > leasesLength(leases)) {
        return holdFields(holds) > own_fields;
    }
    return leasesOthersLive(leases, owner, holds->now_ms);
}

void rwholdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view) {
    pruneOwn(holds, owner);
    if (holds->shape != HOLDS_READ_WRITE) {
        return; /* nobody is left */
    }
    int64_t reads = countOf(holds, owner, MODE_READ);
    int64_t writes = holds->mode == MODE_WRITE ? countOf(holds, owner, MODE_WRITE) : 0;
    bool written = holds->mode == MODE_WRITE;
    view->foreign = reads < 0 || writes < 0;
    view->own[MODE_READ] = reads;
    view->own[MODE_WRITE] = writes;
    size_t own_fields = (reads > 0) + (size_t)(writes > 0);
    bool others = othersHold(holds, owner, own_fields);
    view->others[MODE_WRITE] = others && written && writes == 0;
    view->others[MODE_READ] = others && !view->others[MODE_WRITE];
}

/* A new lock: whatever leases are there speak of one that is gone. */
static void beginLock(struct holds *holds, enum lockMode mode) {
    struct leases *leases = rwholdsLeases(holds);
    leasesClear(leases);
    leases->key_end_ms = 0;
    setMode(holds, mode);
    holds->shape = HOLDS_READ_WRITE;
}

/* Gives the field a lease that ends at `end_ms`. Where none can be written down, the key ends with
 * the last. */
static void setLease(struct holds *holds, RedisModuleString *field, int64_t end_ms) {
    struct leases *leases = rwholdsLeases(holds);
    if (!leasesIsWrongType(leases)) {
        leasesSet(leases, field, end_ms);
        if (end_ms >= leases->key_end_ms) {
            endAt(holds, end_ms);
        } else {
            settleEnd(holds);
        }
    } else if (leases->key_end_ms < end_ms) {
        holdsSetKeyEnd(holds, end_ms);
        leases->key_end_ms = end_ms;
    }
}

/* Nobody lives but this owner, who goes on as the only one: what the dead have left goes. */
static void keepOnly(struct holds *holds, RedisModuleString *owner) {
    int64_t reads = holdsCount(holds, owner);
    int64_t end_ms = leasesEndOf(rwholdsLeases(holds), owner);
    for (size_t dead = holdFields(holds) - (reads > 0); dead > 0; dead--) {
        statsCount(STATS_LEASE_ENDS);
    }
    effectsEvent(holds->ctx, holds->name, "lock.expired");
    removeBoth(holds);
    if (reads > 0) {
        beginLock(holds, MODE_READ);
        holdsPut(holds, owner, reads);
        effectsCount(holds->ctx, holds->name, owner, reads);
        setLease(holds, owner, end_ms);
    }
}

int64_t rwholdsTake(struct holds *holds, RedisModuleString *owner, enum lockMode mode,
                    int64_t lease_ms) {
    if (holds->has_dead && mode == MODE_WRITE) {
        keepOnly(holds, owner);
    }
    bool is_free = holds->shape == HOLDS_FREE;
    RedisModuleString *field = fieldOf(holds, owner, mode);
    int64_t count = is_free ? 0 : holdsCount(holds, field);
    if (count == RULES_MAX_HOLDS) {
        RedisModule_FreeString(holds->ctx, field);
        return 0;
    }
    if (is_free) {
        beginLock(holds, mode);
    } else {
        refreshStale(holds);
        if (mode == MODE_WRITE && count == 0) {
            setMode(holds, MODE_WRITE);
        }
    }
    holdsPut(holds, field, count + 1);
    effectsCount(holds->ctx, holds->name, field, count + 1);
    int64_t end_ms = leasesKeptEnd(holdsEndAfter(holds, lease_ms));
    if (count == 0 || leasesEndOf(rwholdsLeases(holds), field) < end_ms) {
        setLease(holds, field, end_ms);
    }
    RedisModule_FreeString(holds->ctx, field);
    return count + 1;
}

int64_t rwholdsRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode) {
    pruneOwn(holds, owner);
    if (holds->shape != HOLDS_READ_WRITE) {
        return -1;
    }
    RedisModuleString *field = fieldOf(holds, owner, mode);
    int64_t count = holdsCount(holds, field);
    if (count > 1) {
        holdsPut(holds, field, count - 1);
        effectsCount(holds->ctx, holds->name, field, count - 1);
    } else if (count == 1) {
        removeHold(holds, field, mode == MODE_WRITE);
        if (holds->shape == HOLDS_READ_WRITE) {
            settleEnd(holds);
        }
    }
    RedisModule_FreeString(holds->ctx, field);
    return count < 1 ? -1 : count - 1;
}

int64_t rwholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms) {
    pruneOwn(holds, owner);
    int64_t total = 0;
    for (int mode = MODE_READ; mode <= MODE_WRITE && holds->shape == HOLDS_READ_WRITE; mode++) {
        RedisModuleString *field = fieldOf(holds, owner, (enum lockMode)mode);
        int64_t count = holdsCount(holds, field);
        if (count > 0) {
            refreshStale(holds);
            setLease(holds, field, leasesKeptEnd(holdsEndAfter(holds, lease_ms)));
            total += count;
        }
        RedisModule_FreeString(holds->ctx, field);
    }
    return total;
}

int64_t rwholdsDrop(struct holds *holds, RedisModuleString *owner) {
    pruneOwn(holds, owner);
    int64_t total = 0;
    for (int mode = MODE_READ; mode <= MODE_WRITE && holds->shape == HOLDS_READ_WRITE; mode++) {
        RedisModuleString *field = fieldOf(holds, owner, (enum lockMode)mode);
        int64_t count = holdsCount(holds, field);
        if (count > 0) {
            removeHold(holds, field, mode == MODE_WRITE);
            total += count;
        }
        RedisModule_FreeString(holds->ctx, field);
    }
    if (total > 0 && holds->shape == HOLDS_READ_WRITE) {
        settleEnd(holds);
    }
    return total;
}

void rwholdsForce(struct holds *holds) {
    removeBoth(holds);
}

struct visitor {
    struct holds *holds;
    void (*visit)(const struct holder *holder, void *context);
    void *context;
};

static void visitField(RedisModuleKey *key, RedisModuleString *field, RedisModuleString *value,
                       void *data) {
    (void)key;
    struct visitor *visitor = data;
    struct holds *holds = visitor->holds;
    struct holder holder = {.owner = field, .mode = MODE_READ};
    if (!holdsParseCount(value, &holder.count) ||
        leasesEndOf(rwholdsLeases(holds), field) <= holds->now_ms) {
        return;
    }
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(field, &length);
    if (!isWriteField(bytes, length)) {
        visitor->visit(&holder, visitor->context);
        return;
    }
    holder.mode = MODE_WRITE;
    holder.owner = RedisModule_CreateString(holds->ctx, bytes, length - WRITE_SUFFIX_LENGTH);
    visitor->visit(&holder, visitor->context);
    RedisModule_FreeString(holds->ctx, holder.owner);
}

int64_t rwholdsLeaseEnd(struct holds *holds, RedisModuleString *owner, enum lockMode mode) {
    RedisModuleString *field = fieldOf(holds, owner, mode);
    int64_t end_ms = leasesEndOf(rwholdsLeases(holds), field);
    RedisModule_FreeString(holds->ctx, field);
    return end_ms;
}

void rwholdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
                 void *context) {
    struct visitor visitor = {holds, visit, context};
    rwholdsLeases(holds); /* no key is opened while another is scanned */
    RedisModuleScanCursor *cursor = RedisModule_ScanCursorCreate();
    while (RedisModule_ScanKey(holds->key, cursor, visitField, &visitor)) {
    }
    RedisModule_ScanCursorDestroy(cursor);
}
