/* See rules.h. */
#include "core/rules.h"

/* One row for each requested mode, one column for each mode held by somebody else. */
static const bool conflicts[MODE_COUNT][MODE_COUNT] = {
    /*                    READ   WRITE  EXCLUSIVE */
    [MODE_READ] = {false, true, true},
    [MODE_WRITE] = {true, true, true},
    [MODE_EXCLUSIVE] = {true, true, true},
};

bool rulesConflict(enum lockMode one, enum lockMode other) {
    return conflicts[one][other];
}

bool rulesOwnsAny(const struct holdsView *view) {
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        if (view->own[mode] > 0) {
            return true;
        }
    }
    return false;
}

/* A plain lock and a read-write lock are recorded differently, so one owner cannot hold both on one
 * key, and would wait for itself if it tried. */
static bool ownHoldIsOfOtherKind(enum lockMode mode, const struct holdsView *view) {
    bool owns_plain = view->own[MODE_EXCLUSIVE] > 0;
    return owns_plain != (mode == MODE_EXCLUSIVE);
}

enum verdict rulesDecide(enum lockMode mode, const struct holdsView *view) {
    if (view->foreign) {
        return VERDICT_WAIT;
    }
    bool owns = rulesOwnsAny(view);
    if (owns && ownHoldIsOfOtherKind(mode, view)) {
        return VERDICT_SELF_BLOCKED;
    }
    for (int held = 0; held < MODE_COUNT; held++) {
        if (view->others[held] && conflicts[mode][held]) {
            return owns ? VERDICT_UPGRADE : VERDICT_WAIT;
        }
    }
    return owns ? VERDICT_REENTER : VERDICT_GRANT;
}
