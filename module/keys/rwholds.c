/* See rwholds.h. */
#include "keys/rwholds.h"
#include "keys/holdkey.h"

#include "common/propagate.h"
#include "common/stats.h"
#include "keys/holdcount.h"
#include "keys/leasedholds.h"

int64_t rwholdsOwn(struct holds *holds, RedisModuleString *owner, enum lockMode mode) {
    RedisModuleString *field = leasedholdsFieldOf(holds, owner, mode);
    int64_t count = holdkeyCount(holds, field);
    RedisModule_FreeString(holds->ctx, field);
    return count;
}

/* Removes expired holds, at most LEASEDHOLDS_PRUNED_AT_ONCE. Next to a writer there are no more
 * than that, unless another client has written them; then those that are left count as holds. */
static void prune(struct holds *holds) {
    RedisModuleString *field;
    int pruned = 0;
    bool is_enough = false;
    while (!is_enough && holds->kind == HOLDS_READ_WRITE &&
           (field = leasesFirstExpired(leasedholdsLeases(holds), holds->now_ms))) {
        is_enough = pruned == LEASEDHOLDS_PRUNED_AT_ONCE;
        holds->has_dead = is_enough && holds->mode == MODE_READ;
        if (!is_enough) {
            leasedholdsRemoveDead(holds, field);
            pruned++;
        }
        RedisModule_FreeString(holds->ctx, field);
    }
    if (pruned > 0 && holds->kind == HOLDS_READ_WRITE) {
        leasedholdsSettle(holds);
    }
}

/* To be called before the holds of an owner are read: if its own hold is among the expired ones
 * that are left, it is removed. */
static void pruneOwn(struct holds *holds, RedisModuleString *owner) {
    if (holds->has_dead && holdkeyCount(holds, owner) > 0 &&
        leaseExpired(leasesEndOf(leasedholdsLeases(holds), owner), holds->now_ms)) {
        leasedholdsRemoveDead(holds, owner);
    }
}

void rwholdsOpen(struct holds *holds) {
    if (holds->access == KEY_TO_WRITE && !leasedholdsEndWithKey(holds)) {
        prune(holds);
    }
}

/* No other owner has an unexpired hold: removes the expired holds that are left. This owner remains
 * the only one, if it holds anything. */
static void keepOnly(struct holds *holds, RedisModuleString *owner) {
    int64_t reads = holdkeyCount(holds, owner);
    int64_t end_ms = leasesEndOf(leasedholdsLeases(holds), owner);
    statsCountMany(STATS_LEASE_ENDS, leasedholdsCount(holds) - (reads > 0));
    propagateEvent(holds->ctx, holds->name, "lock.expired");
    leasedholdsClear(holds);
    if (reads > 0) {
        leasedholdsBegin(holds, &(struct leasedholdsHold){owner, MODE_READ, reads}, end_ms);
    }
}

/* ---- the functions described in holds.h ---- */

/* The holds of one owner. */
struct own {
    RedisModuleString *owner;
    int64_t reads, writes; /* as holdsCount returns it */
};

static size_t ownFields(const struct own *own) {
    return (size_t)(own->reads > 0) + (size_t)(own->writes > 0);
}

/* Whether another owner reads, if there are this many fields of readers, including the owner's.
 * Expired holds that are left do not count. */
static bool othersRead(struct holds *holds, const struct own *own, int64_t readers) {
    return readers > (own->reads > 0 ? 1 : 0) &&
           (!holds->has_dead || leasedholdsOthersLive(holds, own->owner));
}

/* For a lock whose hash has other fields than the owner's. The field `mode` is not trusted if it
 * says `read`: another client may have written that, or a writer. */
static void seeOthers(struct holds *holds, struct own *own, struct holdsView *view) {
    struct tallySum sum;
    holdcountGet(holds, &sum);
    if (sum.writers > 0 && holds->mode == MODE_READ) {
        own->writes = rwholdsOwn(holds, own->owner, MODE_WRITE);
    }
    view->foreign |= sum.foreign > 0;
    view->own[MODE_WRITE] = own->writes;
    view->others[MODE_WRITE] = sum.writers > (own->writes > 0 ? 1 : 0);
    view->others[MODE_READ] = othersRead(holds, own, sum.owners);
    bool is_held =
        view->foreign || view->others[MODE_WRITE] || view->others[MODE_READ] || ownFields(own) > 0;
    /* What is left has an expired lease, or a TTL of its own that has passed. */
    if (!is_held && holds->access == KEY_TO_WRITE) {
        keepOnly(holds, own->owner);
    }
}

void rwholdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view) {
    pruneOwn(holds, owner);
    if (holds->kind != HOLDS_READ_WRITE) {
        return; /* no hold is left */
    }
    struct own own = {owner, rwholdsOwn(holds, owner, MODE_READ), 0};
    if (holds->mode == MODE_WRITE) {
        own.writes = rwholdsOwn(holds, owner, MODE_WRITE);
    }
    view->foreign = own.reads < 0 || own.writes < 0;
    view->own[MODE_READ] = own.reads;
    view->own[MODE_WRITE] = own.writes;
    if (leasedholdsCount(holds) == ownFields(&own)) {
        return;
    }
    if (holds->mode == MODE_WRITE && own.writes <= 0) {
        view->others[MODE_WRITE] = true; /* nothing can be granted, whatever else is there */
    } else {
        seeOthers(holds, &own, view);
    }
}

int64_t rwholdsTake(struct holds *holds, const struct holdsGrant *request) {
    enum lockMode mode = request->mode;
    if (holds->has_dead && mode == MODE_WRITE) {
        keepOnly(holds, request->owner);
    }
    bool is_free = holds->kind == HOLDS_FREE;
    RedisModuleString *field = leasedholdsFieldOf(holds, request->owner, mode);
    int64_t count = request->is_first ? 0 : holdkeyCount(holds, field);
    if (count == RULES_MAX_HOLDS) {
        RedisModule_FreeString(holds->ctx, field);
        return 0;
    }
    if (is_free) {
        leasedholdsBegin(holds, &(struct leasedholdsHold){field, mode, 1},
                         leasesKeptEnd(holdkeyEndAfter(holds, request->lease_ms)));
    } else {
        leasedholdsRefresh(holds, count == 0);
        if (mode == MODE_WRITE && count == 0) {
            leasedholdsSetMode(holds, MODE_WRITE);
        }
        holdkeyPut(holds, field, count + 1);
        propagateCount(holds->ctx, holds->name, field, count + 1);
        holdcountNote(holds, field, count, count + 1);
        leasedholdsLengthen(holds, field, request->lease_ms, count == 0);
    }
    RedisModule_FreeString(holds->ctx, field);
    return count + 1;
}

int64_t rwholdsRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode) {
    pruneOwn(holds, owner);
    if (holds->kind != HOLDS_READ_WRITE) {
        return -1;
    }
    RedisModuleString *field = leasedholdsFieldOf(holds, owner, mode);
    int64_t count = holdkeyCount(holds, field);
    if (count > 1) {
        holdkeyPut(holds, field, count - 1);
        propagateCount(holds->ctx, holds->name, field, count - 1);
    } else if (count == 1) {
        leasedholdsRemove(holds, &(struct leasedholdsHold){field, mode, count});
        if (holds->kind == HOLDS_READ_WRITE) {
            leasedholdsSettle(holds);
        }
    }
    RedisModule_FreeString(holds->ctx, field);
    return count < 1 ? -1 : count - 1;
}

int64_t rwholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms) {
    pruneOwn(holds, owner);
    int64_t total = 0;
    for (int mode = MODE_READ; mode <= MODE_WRITE && holds->kind == HOLDS_READ_WRITE; mode++) {
        RedisModuleString *field = leasedholdsFieldOf(holds, owner, (enum lockMode)mode);
        int64_t count = holdkeyCount(holds, field);
        if (count > 0) {
            leasedholdsRefresh(holds, false);
            leasedholdsSetLease(holds, field, leasesKeptEnd(holdkeyEndAfter(holds, lease_ms)));
            total += count;
        }
        RedisModule_FreeString(holds->ctx, field);
    }
    return total;
}

int64_t rwholdsDrop(struct holds *holds, RedisModuleString *owner) {
    pruneOwn(holds, owner);
    int64_t total = 0;
    for (int mode = MODE_READ; mode <= MODE_WRITE && holds->kind == HOLDS_READ_WRITE; mode++) {
        RedisModuleString *field = leasedholdsFieldOf(holds, owner, (enum lockMode)mode);
        int64_t count = holdkeyCount(holds, field);
        if (count > 0) {
            leasedholdsRemove(holds, &(struct leasedholdsHold){field, (enum lockMode)mode, count});
            total += count;
        }
        RedisModule_FreeString(holds->ctx, field);
    }
    if (total > 0 && holds->kind == HOLDS_READ_WRITE) {
        leasedholdsSettle(holds);
    }
    return total;
}

int64_t rwholdsEndOf(struct holds *holds, RedisModuleString *owner) {
    int64_t last_ms = 0;
    for (int mode = MODE_READ; mode <= MODE_WRITE; mode++) {
        RedisModuleString *field = leasedholdsFieldOf(holds, owner, (enum lockMode)mode);
        if (holdkeyCount(holds, field) > 0) {
            int64_t end_ms = leasesEndOf(leasedholdsLeases(holds), field);
            last_ms = end_ms > last_ms ? end_ms : last_ms;
        }
        RedisModule_FreeString(holds->ctx, field);
    }
    return last_ms;
}
