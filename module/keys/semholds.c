/* See semholds.h. */
#include "keys/semholds.h"
#include "keys/holdkey.h"

#include <stdbool.h>
#include <stddef.h>

#include "common/propagate.h"
#include "keys/encoding.h"
#include "keys/holdcount.h"
#include "keys/leasedholds.h"
#include "server/timeslice.h"

/* If a semaphore has at least CROWD holders, each acquisition also removes up to PRUNED_BY_THE_WAY
 * expired holds. Otherwise expired holds would pile up until the limit is reached. */
#define CROWD 16
#define PRUNED_BY_THE_WAY 2

/* ---- how many are taken ---- */

/* A field that belongs to no owner, or has no readable count, counts as all permits. */
static int64_t takenOf(const struct tallySum *sum) {
    return sum->permits + (sum->foreign > 0 ? RULES_MAX_HOLDS : 0);
}

/* With several holders both keys are encoded as a hashtable and a skiplist (encoding.h), when the
 * second one is added or their fields are first counted: even for two holders each costs less than
 * a listpack. */
static void semholdsGrow(struct holds *holds) {
    encodingGrowHash(holds->ctx, holds->key);
    leasesGrowTree(leasedholdsLeases(holds));
}

static struct tallySum sumOf(struct holds *holds) {
    struct tallySum sum;
    if (holdcountGet(holds, &sum)) {
        semholdsGrow(holds);
    }
    return sum;
}

/* How many permits all owners have together. */
static int64_t taken(struct holds *holds) {
    struct tallySum sum = sumOf(holds);
    return takenOf(&sum);
}

/* ---- expired permits ---- */

/* Makes the key expire with the last lease. If only expired holds are left, after an unexpired one
 * was removed, the lock is free. */
static void semholdsSettle(struct holds *holds) {
    struct leases *leases = leasedholdsLeases(holds);
    if (holds->kind != HOLDS_SEMAPHORE) {
        return;
    }
    if (leaseExpired(leasesLastEnd(leases), holds->now_ms)) {
        leasedholdsClear(holds);
    } else {
        leasedholdsSettle(holds);
    }
}

/* Removes the hold whose lease ended first. Returns whether there was an expired one; stores what
 * was in its field, as leasedholdsRemoveDead returns it. */
static bool pruneFirst(struct holds *holds, int64_t *count) {
    RedisModuleString *field = leasesFirstExpired(leasedholdsLeases(holds), holds->now_ms);
    if (!field) {
        return false;
    }
    *count = leasedholdsRemoveDead(holds, field);
    RedisModule_FreeString(holds->ctx, field);
    return true;
}

void semholdsPrune(struct holds *holds) {
    int pruned = 0;
    int64_t count;
    while (holds->kind == HOLDS_SEMAPHORE && pruned < LEASEDHOLDS_PRUNED_AT_ONCE &&
           pruneFirst(holds, &count)) {
        pruned++;
    }
}

/* Whether the hold whose lease ends last is unexpired. False if another client has removed the
 * hold, or has written a lease that belongs to no hold. */
static bool lastLives(struct holds *holds) {
    RedisModuleString *field = leasesLastField(leasedholdsLeases(holds), holds->now_ms);
    if (!field) {
        return false;
    }
    bool lives = holdcountIsHold(holds, field) && holdkeyCount(holds, field) != 0;
    RedisModule_FreeString(holds->ctx, field);
    return lives;
}

/* How many permits are taken after a field with this count was removed. */
static int64_t takenWithout(struct holds *holds, int64_t taken_before, int64_t count) {
    return count >= 0 ? taken_before - count : taken(holds);
}

/* In a grant pass this ends with the time slice. The next pass continues, and comes at once because
 * there are expired leases. */
bool semholdsMakeRoom(struct holds *holds, int64_t most) {
    bool made = false;
    if (most < 0 && lastLives(holds)) {
        return false;
    }
    int64_t left = taken(holds), count;
    while (left > most && !(timesliceHasBegun() && timesliceHasEnded()) &&
           pruneFirst(holds, &count)) {
        made = true;
        left = holds->kind == HOLDS_SEMAPHORE ? takenWithout(holds, left, count) : most;
    }
    return made;
}

static bool hasExpired(struct holds *holds, RedisModuleString *owner) {
    return !leasedholdsEndWithKey(holds) &&
           leaseExpired(leasesEndOf(leasedholdsLeases(holds), owner), holds->now_ms);
}

/* The owner's permits, or -1 if the field is no number. Removes them if their lease has expired. */
static int64_t ownPermits(struct holds *holds, RedisModuleString *owner) {
    int64_t own = holdkeyCount(holds, owner);
    if (own > 0 && hasExpired(holds, owner)) {
        leasedholdsRemoveDead(holds, owner);
        own = 0;
    }
    return own;
}

/* ---- the functions described in holds.h ---- */

/* Deletes the lock if no field belongs to a holder: fields that have expired by a TTL of their own
 * may still be in the hash. Returns whether it did. */
static bool clearIfNobodys(struct holds *holds, const struct tallySum *sum) {
    bool is_held = sum->owners + sum->foreign > 0;
    if (!is_held) {
        leasedholdsClear(holds);
    }
    return !is_held;
}

void semholdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view) {
    RedisModule_Assert(holds->access == KEY_TO_WRITE);
    int64_t own = ownPermits(holds, owner);
    if (holds->kind != HOLDS_SEMAPHORE) {
        return; /* no hold is left */
    }
    view->foreign = own < 0;
    view->own[MODE_SEMAPHORE] = own;
    view->permits_taken = own;
    if (leasedholdsCount(holds) == (own > 0)) {
        return;
    }
    struct tallySum sum = sumOf(holds);
    if (!clearIfNobodys(holds, &sum)) {
        view->others[MODE_SEMAPHORE] = sum.owners + sum.foreign > (own > 0 ? 1 : 0);
        view->permits_taken = takenOf(&sum);
    }
}

/* At least CROWD - 1 holds are left, so the lock is not free after this. */
static void pruneCrowd(struct holds *holds) {
    int pruned = 0;
    int64_t count;
    while (pruned < PRUNED_BY_THE_WAY && leasedholdsCount(holds) >= CROWD &&
           pruneFirst(holds, &count)) {
        pruned++;
    }
}

int64_t semholdsTake(struct holds *holds, const struct holdsGrant *request) {
    int64_t own = request->is_first ? 0 : holdkeyCount(holds, request->owner);
    if (own > RULES_MAX_HOLDS - request->count) {
        return 0;
    }
    if (holds->kind == HOLDS_FREE) {
        leasedholdsBegin(holds,
                         &(struct leasedholdsHold){request->owner, MODE_SEMAPHORE, request->count},
                         leasesKeptEnd(holdkeyEndAfter(holds, request->lease_ms)));
    } else {
        if (leasedholdsRefresh(holds, own == 0)) {
            leasesGrowTree(leasedholdsLeases(holds));
        }
        pruneCrowd(holds);
        holdkeyPut(holds, request->owner, own + request->count);
        propagateCount(holds->ctx, holds->name, request->owner, own + request->count);
        holdcountNote(holds, request->owner, own, own + request->count);
        leasedholdsLengthen(holds, request->owner, request->lease_ms, own == 0);
    }
    return own + request->count;
}

/* Removes all permits of the owner. */
static void removeAll(struct holds *holds, RedisModuleString *owner, int64_t own) {
    struct leases *leases = leasedholdsLeases(holds);
    bool is_only = leasedholdsCount(holds) == 1;
    bool was_last = !is_only && leasesEndOf(leases, owner) >= leases->key_end_ms;
    leasedholdsRemove(holds, &(struct leasedholdsHold){owner, MODE_SEMAPHORE, own});
    if (was_last) {
        semholdsSettle(holds);
    }
}

int64_t semholdsRelease(struct holds *holds, RedisModuleString *owner, int64_t count) {
    int64_t own = ownPermits(holds, owner);
    if (own < count) {
        return -1;
    }
    if (own == count) {
        removeAll(holds, owner, own);
    } else {
        holdkeyPut(holds, owner, own - count);
        propagateCount(holds->ctx, holds->name, owner, own - count);
        holdcountNote(holds, owner, own, own - count);
    }
    return own - count;
}

int64_t semholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms) {
    int64_t own = ownPermits(holds, owner);
    if (own < 1) {
        return 0;
    }
    leasedholdsRefresh(holds, false);
    leasedholdsSetLease(holds, owner, leasesKeptEnd(holdkeyEndAfter(holds, lease_ms)));
    return own;
}

int64_t semholdsDrop(struct holds *holds, RedisModuleString *owner) {
    int64_t own = ownPermits(holds, owner);
    if (own < 1) {
        return 0;
    }
    removeAll(holds, owner, own);
    return own;
}

static void noteHolder(const struct holder *holder, void *is_held) {
    (void)holder;
    *(bool *)is_held = true;
}

bool semholdsIsFree(struct holds *holds) {
    bool is_held = false;
    if (holds->access == KEY_TO_READ) {
        struct tallySum sum;
        holdcountGet(holds, &sum);
        leasedholdsEach(holds, noteHolder, &is_held);
        return !is_held && sum.foreign == 0;
    }
    semholdsPrune(holds);
    return holds->kind == HOLDS_FREE;
}

int64_t semholdsEndOf(struct holds *holds, RedisModuleString *owner) {
    bool has_any = holdkeyCount(holds, owner) > 0;
    return has_any ? leasesEndOf(leasedholdsLeases(holds), owner) : 0;
}

int64_t semholdsNextEnd(struct holds *holds) {
    return leasesFirstEnd(leasedholdsLeases(holds));
}
