/* See semholds.h. */
#include "keys/semholds.h"

#include <stdbool.h>
#include <stddef.h>

#include "keys/leasedholds.h"
#include "keys/tally.h"
#include "keys/trees.h"
#include "server/effects.h"
#include "server/turn.h"

/* Of so many holders each taking takes some away that are over, or they would pile up to the
 * limit. */
#define CROWD 16
#define PRUNED_BY_THE_WAY 2

/* ---- how many are taken ---- */

/* What a field holds that says nothing that we can read is everything. */
static int64_t permitsIn(RedisModuleString *value) {
    int64_t count;
    return holdsParseCount(value, &count) ? count : RULES_MAX_HOLDS;
}

static void addField(RedisModuleKey *key, RedisModuleString *field, RedisModuleString *value,
                     void *sum) {
    (void)key;
    if (!leasedholdsIsMode(field)) {
        *(int64_t *)sum += permitsIn(value);
    }
}

static int64_t addUp(struct holds *holds) {
    int64_t sum = 0;
    RedisModuleScanCursor *cursor = RedisModule_ScanCursorCreate();
    while (RedisModule_ScanKey(holds->key, cursor, addField, &sum)) {
    }
    RedisModule_ScanCursorDestroy(cursor);
    return sum;
}

/* With several holders the keys are kept as a table and a tree from the first time on that they are
 * counted, as each costs less than the list of two. */
static void grow(struct holds *holds) {
    treesGrowHash(holds->ctx, holds->key);
    leasesGrowTree(leasedholdsLeases(holds));
}

#ifdef CHECKED

/* Of more holders not each time. */
#define MOST_CHECKED 64

static void checkSum(struct holds *holds, const struct tallySum *sum) {
    RedisModule_Assert(sum->fields > MOST_CHECKED || sum->taken == addUp(holds));
}

#else

static inline void checkSum(struct holds *holds, const struct tallySum *sum) {
    (void)holds, (void)sum;
}

#endif

/* The permits of all owners, of whom this one has `own`. */
static int64_t takenBesides(struct holds *holds, int64_t own) {
    size_t holders = leasedholdsCount(holds);
    if (holders == (own > 0)) {
        return own;
    }
    struct tallySum sum = {.fields = holdsFieldCount(holds)};
    if (!tallyFind(holds->ctx, holds->name, sum.fields, &sum.taken)) {
        sum.taken = addUp(holds);
        tallyKeep(holds->ctx, holds->name, &sum);
        grow(holds);
    }
    checkSum(holds, &sum);
    return sum.taken;
}

static void noteChange(struct holds *holds, struct tallyChange change) {
    if (holds->shape == HOLDS_SEMAPHORE) {
        tallyChange(holds->ctx, holds->name, holdsFieldCount(holds), &change);
    }
}

/* ---- what is over ---- */

/* Lets the key end with the last lease; what only the dead hold, after one that lived has gone, is
 * free. */
static void settle(struct holds *holds) {
    struct leases *leases = leasedholdsLeases(holds);
    if (holds->shape != HOLDS_SEMAPHORE) {
        return;
    }
    if (leasesIsOver(leasesLastEnd(leases), holds->now_ms)) {
        leasedholdsClear(holds);
    } else {
        leasedholdsSettle(holds);
    }
}

/* The permits in this field; 0 when there is no such field. */
static int64_t permitsOf(struct holds *holds, RedisModuleString *field) {
    int64_t count = holdsCount(holds, field);
    return count < 0 ? RULES_MAX_HOLDS : count;
}

static void removeDead(struct holds *holds, RedisModuleString *field) {
    int64_t permits = permitsOf(holds, field);
    leasedholdsRemoveDead(holds, field);
    noteChange(holds, (struct tallyChange){-(permits > 0), -permits});
}

/* Takes away the hold whose lease ended first. Returns whether there was one that is over. */
static bool pruneFirst(struct holds *holds) {
    RedisModuleString *field = leasesFirstOver(leasedholdsLeases(holds), holds->now_ms);
    if (!field) {
        return false;
    }
    removeDead(holds, field);
    RedisModule_FreeString(holds->ctx, field);
    return true;
}

void semholdsPrune(struct holds *holds) {
    int pruned = 0;
    while (holds->shape == HOLDS_SEMAPHORE && pruned < LEASEDHOLDS_PRUNED_AT_ONCE &&
           pruneFirst(holds)) {
        pruned++;
    }
}

/* Whether the hold whose lease ends last lives; but not where somebody has taken it away by
 * hand. */
static bool lastLives(struct holds *holds) {
    RedisModuleString *field = leasesLastField(leasedholdsLeases(holds), holds->now_ms);
    if (!field) {
        return false;
    }
    bool lives = holdsCount(holds, field) != 0;
    RedisModule_FreeString(holds->ctx, field);
    return lives;
}

/* In a pass not for longer than its turn: the next one, which is at once, as there are leases that
 * are over, goes on. */
bool semholdsMakeRoom(struct holds *holds, int64_t most) {
    bool made = false;
    if (most < 0 && lastLives(holds)) {
        return false;
    }
    while (holds->shape == HOLDS_SEMAPHORE && takenBesides(holds, 0) > most &&
           !(turnHasBegun() && turnIsOver()) && pruneFirst(holds)) {
        made = true;
    }
    return made;
}

static bool isOver(struct holds *holds, RedisModuleString *owner) {
    return !leasedholdsEndWithKey(holds) &&
           leasesIsOver(leasesEndOf(leasedholdsLeases(holds), owner), holds->now_ms);
}

/* The owner's permits, or -1 for what is no number. Takes them away if their lease is over. */
static int64_t ownPermits(struct holds *holds, RedisModuleString *owner) {
    int64_t own = holdsCount(holds, owner);
    if (own > 0 && isOver(holds, owner)) {
        removeDead(holds, owner);
        own = 0;
    }
    return own;
}

/* ---- what holds.h promises ---- */

void semholdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view) {
    RedisModule_Assert(holds->access == KEY_TO_WRITE);
    int64_t own = ownPermits(holds, owner);
    if (holds->shape != HOLDS_SEMAPHORE) {
        return; /* nobody is left */
    }
    view->foreign = own < 0;
    view->own[MODE_SEMAPHORE] = own;
    view->others[MODE_SEMAPHORE] = leasedholdsCount(holds) > (own > 0);
    view->permits_taken = takenBesides(holds, own);
}

/* Leaves all but one at least, so the lock is not free after that. */
static void pruneCrowd(struct holds *holds) {
    int pruned = 0;
    while (pruned < PRUNED_BY_THE_WAY && leasedholdsCount(holds) >= CROWD && pruneFirst(holds)) {
        pruned++;
    }
}

int64_t semholdsTake(struct holds *holds, const struct holdsRequest *request) {
    int64_t own = request->is_first ? 0 : holdsCount(holds, request->owner);
    if (own > RULES_MAX_HOLDS - request->count) {
        return 0;
    }
    if (holds->shape == HOLDS_FREE) {
        /* Of an earlier one that has gone without an event. */
        tallyForget(RedisModule_GetSelectedDb(holds->ctx), holds->name);
        leasedholdsBegin(holds, MODE_SEMAPHORE, request->owner, request->count);
    } else {
        leasedholdsRefresh(holds);
        pruneCrowd(holds);
        holdsPut(holds, request->owner, own + request->count);
        effectsCount(holds->ctx, holds->name, request->owner, own + request->count);
        noteChange(holds, (struct tallyChange){own == 0, request->count});
    }
    leasedholdsLengthen(holds, request->owner, request->lease_ms, own == 0);
    return own + request->count;
}

/* Takes all permits of the owner away. */
static void removeAll(struct holds *holds, RedisModuleString *owner, int64_t own) {
    struct leases *leases = leasedholdsLeases(holds);
    bool is_only = leasedholdsCount(holds) == 1;
    bool was_last = !is_only && leasesEndOf(leases, owner) >= leases->key_end_ms;
    leasedholdsRemove(holds, owner, MODE_SEMAPHORE);
    noteChange(holds, (struct tallyChange){-1, -own});
    if (was_last) {
        settle(holds);
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
        holdsPut(holds, owner, own - count);
        effectsCount(holds->ctx, holds->name, owner, own - count);
        noteChange(holds, (struct tallyChange){0, -count});
    }
    return own - count;
}

int64_t semholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms) {
    int64_t own = ownPermits(holds, owner);
    if (own < 1) {
        return 0;
    }
    leasedholdsRefresh(holds);
    leasedholdsSetLease(holds, owner, leasesKeptEnd(holdsEndAfter(holds, lease_ms)));
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
        holdsEach(holds, noteHolder, &is_held);
        return !is_held;
    }
    semholdsPrune(holds);
    return holds->shape == HOLDS_FREE;
}

int64_t semholdsEndOf(struct holds *holds, RedisModuleString *owner) {
    bool has_any = holdsCount(holds, owner) > 0;
    return has_any ? leasesEndOf(leasedholdsLeases(holds), owner) : 0;
}

int64_t semholdsNextEnd(struct holds *holds) {
    return leasesFirstEnd(leasedholdsLeases(holds));
}
