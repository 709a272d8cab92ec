/* See rwholds.h. */
#include "keys/rwholds.h"

#include "keys/leasedholds.h"
#include "server/effects.h"
#include "server/stats.h"

static int64_t countOf(struct holds *holds, RedisModuleString *owner, enum lockMode mode) {
    RedisModuleString *field = leasedholdsFieldOf(holds, owner, mode);
    int64_t count = holdsCount(holds, field);
    RedisModule_FreeString(holds->ctx, field);
    return count;
}

/* Takes away what is over; of readers not more than LEASEDHOLDS_PRUNED_AT_ONCE. A dead writer
 * always goes, because the lock's mode tells of him. */
static void prune(struct holds *holds) {
    RedisModuleString *field;
    int pruned = 0;
    while (holds->shape == HOLDS_READ_WRITE &&
           (field = leasesFirstOver(leasedholdsLeases(holds), holds->now_ms))) {
        holds->has_dead = holds->mode == MODE_READ && pruned == LEASEDHOLDS_PRUNED_AT_ONCE;
        if (!holds->has_dead) {
            leasedholdsRemoveDead(holds, field);
            pruned++;
        }
        RedisModule_FreeString(holds->ctx, field);
        if (holds->has_dead) {
            break;
        }
    }
    if (pruned > 0 && holds->shape == HOLDS_READ_WRITE) {
        leasedholdsSettle(holds);
    }
}

/* Before an owner is asked for: if its own hold is among the dead that are left, it goes now. */
static void pruneOwn(struct holds *holds, RedisModuleString *owner) {
    if (holds->has_dead && holdsCount(holds, owner) > 0 &&
        leasesIsOver(leasesEndOf(leasedholdsLeases(holds), owner), holds->now_ms)) {
        leasedholdsRemoveDead(holds, owner);
    }
}

void rwholdsOpen(struct holds *holds) {
    if (holds->access == KEY_TO_WRITE && !leasedholdsEndWithKey(holds)) {
        prune(holds);
    }
}

/* ---- what holds.h promises ---- */

/* Whether anybody else than this owner, who has so many fields, holds the lock. */
static bool othersHold(struct holds *holds, RedisModuleString *owner, size_t own_fields) {
    struct leases *leases = leasedholdsLeases(holds);
    /* A hold that somebody has written by hand has no lease, and lives as long as the key. */
    if (!holds->has_dead || leasedholdsCount(holds) > leasesLength(leases)) {
        return leasedholdsCount(holds) > own_fields;
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

/* Nobody lives but this owner, who goes on as the only one: what the dead have left goes. */
static void keepOnly(struct holds *holds, RedisModuleString *owner) {
    int64_t reads = holdsCount(holds, owner);
    int64_t end_ms = leasesEndOf(leasedholdsLeases(holds), owner);
    statsCountMany(STATS_LEASE_ENDS, leasedholdsCount(holds) - (reads > 0));
    effectsEvent(holds->ctx, holds->name, "lock.expired");
    leasedholdsClear(holds);
    if (reads > 0) {
        leasedholdsBegin(holds, MODE_READ, owner, reads);
        leasedholdsSetLease(holds, owner, end_ms);
    }
}

int64_t rwholdsTake(struct holds *holds, const struct holdsRequest *request) {
    enum lockMode mode = request->mode;
    if (holds->has_dead && mode == MODE_WRITE) {
        keepOnly(holds, request->owner);
    }
    bool is_free = holds->shape == HOLDS_FREE;
    RedisModuleString *field = leasedholdsFieldOf(holds, request->owner, mode);
    int64_t count = request->is_first ? 0 : holdsCount(holds, field);
    if (count == RULES_MAX_HOLDS) {
        RedisModule_FreeString(holds->ctx, field);
        return 0;
    }
    if (is_free) {
        leasedholdsBegin(holds, mode, field, 1);
    } else {
        leasedholdsRefresh(holds);
        if (mode == MODE_WRITE && count == 0) {
            leasedholdsSetMode(holds, MODE_WRITE);
        }
        holdsPut(holds, field, count + 1);
        effectsCount(holds->ctx, holds->name, field, count + 1);
    }
    leasedholdsLengthen(holds, field, request->lease_ms, count == 0);
    RedisModule_FreeString(holds->ctx, field);
    return count + 1;
}

int64_t rwholdsRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode) {
    pruneOwn(holds, owner);
    if (holds->shape != HOLDS_READ_WRITE) {
        return -1;
    }
    RedisModuleString *field = leasedholdsFieldOf(holds, owner, mode);
    int64_t count = holdsCount(holds, field);
    if (count > 1) {
        holdsPut(holds, field, count - 1);
        effectsCount(holds->ctx, holds->name, field, count - 1);
    } else if (count == 1) {
        leasedholdsRemove(holds, field, mode);
        if (holds->shape == HOLDS_READ_WRITE) {
            leasedholdsSettle(holds);
        }
    }
    RedisModule_FreeString(holds->ctx, field);
    return count < 1 ? -1 : count - 1;
}

int64_t rwholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms) {
    pruneOwn(holds, owner);
    int64_t total = 0;
    for (int mode = MODE_READ; mode <= MODE_WRITE && holds->shape == HOLDS_READ_WRITE; mode++) {
        RedisModuleString *field = leasedholdsFieldOf(holds, owner, (enum lockMode)mode);
        int64_t count = holdsCount(holds, field);
        if (count > 0) {
            leasedholdsRefresh(holds);
            leasedholdsSetLease(holds, field, leasesKeptEnd(holdsEndAfter(holds, lease_ms)));
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
        RedisModuleString *field = leasedholdsFieldOf(holds, owner, (enum lockMode)mode);
        int64_t count = holdsCount(holds, field);
        if (count > 0) {
            leasedholdsRemove(holds, field, (enum lockMode)mode);
            total += count;
        }
        RedisModule_FreeString(holds->ctx, field);
    }
    if (total > 0 && holds->shape == HOLDS_READ_WRITE) {
        leasedholdsSettle(holds);
    }
    return total;
}
