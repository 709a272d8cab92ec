/* See rules.h. */
#include "core/rules.h"

/* One row for each requested mode, one column for each mode that another owner holds. */
const enum rulesCompatibility rules_compatibility[MODE_COUNT][MODE_COUNT] = {
    /*                    READ      WRITE  EXCLUSIVE  SEMAPHORE */
    [MODE_READ] = {RULES_COMPATIBLE, RULES_CONFLICTING, RULES_CONFLICTING, RULES_CONFLICTING},
    [MODE_WRITE] = {RULES_CONFLICTING, RULES_CONFLICTING, RULES_CONFLICTING, RULES_CONFLICTING},
    [MODE_EXCLUSIVE] = {RULES_CONFLICTING, RULES_CONFLICTING, RULES_CONFLICTING, RULES_CONFLICTING},
    [MODE_SEMAPHORE] = {RULES_CONFLICTING, RULES_CONFLICTING, RULES_CONFLICTING, RULES_COUNTED},
};

/* The kind of lock that holds of this mode are stored as. One owner cannot hold two kinds on one
 * key: it would wait for itself. */
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

bool rulesStandsBehind(enum lockMode mode, enum lockMode other) {
    return rules_compatibility[mode][other] != RULES_COMPATIBLE;
}

bool rulesOwnsAny(const struct holdsView *view) {
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        if (view->own[mode] > 0) {
            return true;
        }
    }
    return false;
}

int64_t rulesLacks(const struct lockRequest *request, const struct holdsView *view) {
    int64_t count = request->mode == MODE_SEMAPHORE ? request->permits.count : 1;
    return request->once ? count - view->own[request->mode] : count;
}

enum verdict rulesDecide(const struct lockRequest *request, const struct holdsView *view) {
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
        is_in_the_way |=
            view->others[held] && rules_compatibility[request->mode][held] == RULES_CONFLICTING;
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
    /* Subtracts instead of adding, which could overflow: another client may have written any number
     * of permits to the key. */
    if (view->permits_taken > request->permits.limit - rulesLacks(request, view)) {
        return VERDICT_WAIT;
    }
    return owns ? VERDICT_ADD : VERDICT_GRANT;
}
