/* See rules.h. */
#include "core/rules.h"

/* How holds of two different owners go together. */
enum company {
    APART,    /* not at all */
    TOGETHER, /* any number of them */
    BY_NUMBER /* as long as their permits are within the limit */
};

/* One row for each requested mode, one column for each mode held by somebody else. */
static const enum company company[MODE_COUNT][MODE_COUNT] = {
    /*                    READ      WRITE  EXCLUSIVE  SEMAPHORE */
    [MODE_READ] = {TOGETHER, APART, APART, APART},
    [MODE_WRITE] = {APART, APART, APART, APART},
    [MODE_EXCLUSIVE] = {APART, APART, APART, APART},
    [MODE_SEMAPHORE] = {APART, APART, APART, BY_NUMBER},
};

/* What kind of lock holds of this mode are recorded as. One owner cannot hold two kinds on one key,
 * and would wait for itself if it tried. */
static const enum kind {
    KIND_PLAIN,
    KIND_READ_WRITE,
    KIND_SEMAPHORE
} kinds[MODE_COUNT] = {
    [MODE_READ] = KIND_READ_WRITE,
    [MODE_WRITE] = KIND_READ_WRITE,
    [MODE_EXCLUSIVE] = KIND_PLAIN,
    [MODE_SEMAPHORE] = KIND_SEMAPHORE,
};

bool rulesConflict(enum lockMode one, enum lockMode other) {
    return company[one][other] == APART;
}

bool rulesStandsBehind(enum lockMode mode, enum lockMode other) {
    return company[mode][other] != TOGETHER;
}

bool rulesFits(enum verdict verdict) {
    return verdict == VERDICT_GRANT || verdict == VERDICT_ADD || verdict == VERDICT_REENTER ||
           verdict == VERDICT_HELD;
}

bool rulesOwnsAny(const struct holdsView *view) {
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        if (view->own[mode] > 0) {
            return true;
        }
    }
    return false;
}

int64_t rulesLacks(const struct rulesRequest *request, const struct holdsView *view) {
    int64_t count = request->mode == MODE_SEMAPHORE ? request->permits.count : 1;
    return request->once ? count - view->own[request->mode] : count;
}

enum verdict rulesDecide(const struct rulesRequest *request, const struct holdsView *view) {
    if (view->foreign) {
        return VERDICT_WAIT;
    }
    if (request->once && rulesLacks(request, view) <= 0) {
        return VERDICT_HELD;
    }
    bool owns = false, owns_other_kind = false, is_in_the_way = false;
    for (int held = 0; held < MODE_COUNT; held++) {
        if (view->own[held] > 0) {
            owns = true;
            owns_other_kind |= kinds[held] != kinds[request->mode];
        }
        is_in_the_way |= view->others[held] && company[request->mode][held] == APART;
    }
    if (owns_other_kind) {
        return VERDICT_SELF_BLOCKED;
    }
    if (is_in_the_way) {
        return owns ? VERDICT_UPGRADE : VERDICT_WAIT;
    }
    if (request->mode != MODE_SEMAPHORE) {
        return owns ? VERDICT_REENTER : VERDICT_GRANT;
    }
    /* Without adding first: what is taken may be any number, where somebody has written it by
     * hand. */
    if (view->permits_taken > request->permits.limit - rulesLacks(request, view)) {
        return VERDICT_WAIT;
    }
    return owns ? VERDICT_ADD : VERDICT_GRANT;
}
