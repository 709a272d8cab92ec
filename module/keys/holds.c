/* See holds.h. */
#include "keys/holds.h"

#include <stddef.h>

#include "keys/rwholds.h"
#include "server/effects.h"

enum holdsShape holdsOpen(struct holds *holds, RedisModuleCtx *ctx, RedisModuleString *name,
                          int64_t now_ms, enum keyAccess access) {
    lockkeyOpen(holds, ctx, name, now_ms, access);
    if (holds->shape == HOLDS_READ_WRITE && access == KEY_TO_WRITE && !holdsSidesAreHere(holds)) {
        holds->shape = HOLDS_MOVING;
    }
    if (holds->shape == HOLDS_READ_WRITE) {
        rwholdsOpen(holds);
    }
    return holds->shape;
}

bool holdsSidesAreHere(struct holds *holds) {
    if (holds->sides == SIDES_UNKNOWN) {
        holds->sides = keynamesSidesAreHere(holds->ctx, holds->name) ? SIDES_HERE : SIDES_MOVING;
    }
    return holds->sides == SIDES_HERE;
}

void holdsCloseLeases(struct holds *holds) {
    leasesClose(&holds->leases);
}

void holdsClose(struct holds *holds) {
    holdsCloseLeases(holds);
    RedisModule_CloseKey(holds->key);
    holds->key = NULL;
}

/* What is left when somebody has taken the last owner out of a read-write lock by hand is nobody's.
 * Its leases are closed again, because of others that may be open (multikey.c). */
bool holdsIsFree(struct holds *holds) {
    if (lockkeyHasModeOnly(holds)) {
        if (holds->access == KEY_TO_WRITE) {
            rwholdsForce(holds);
            holdsCloseLeases(holds);
        }
        holds->shape = HOLDS_FREE;
    }
    return holds->shape == HOLDS_FREE;
}

void holdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view) {
    RedisModule_Assert(holds->shape != HOLDS_WRONG_TYPE);
    *view = (struct holdsView){.foreign =
                                   holds->shape == HOLDS_FOREIGN || holds->shape == HOLDS_MOVING};
    if (holds->shape == HOLDS_READ_WRITE) {
        rwholdsSeenBy(holds, owner, view);
    }
    if (holds->shape != HOLDS_PLAIN) {
        return;
    }
    int64_t count = lockkeyCount(holds, owner);
    view->foreign = count < 0;
    view->own[MODE_EXCLUSIVE] = count > 0 ? count : 0;
    view->others[MODE_EXCLUSIVE] = count == 0 && !holdsIsFree(holds);
}

int64_t holdsNextEnd(struct holds *holds) {
    return holds->shape == HOLDS_READ_WRITE ? leasesFirstEnd(rwholdsLeases(holds))
                                            : lockkeyEnd(holds);
}

bool holdsCanLease(struct holds *holds) {
    return !leasesIsWrongType(rwholdsLeases(holds));
}

static int64_t takePlain(struct holds *holds, RedisModuleString *owner, int64_t lease_ms) {
    bool is_new = holds->shape == HOLDS_FREE;
    int64_t count = is_new ? 0 : lockkeyCount(holds, owner);
    if (count == RULES_MAX_HOLDS) {
        return 0;
    }
    int64_t lease_end = lockkeyEndAfter(holds, lease_ms);
    bool changes_lease = is_new || lease_end > lockkeyEnd(holds);
    lockkeyPut(holds, owner, count + 1);
    holds->shape = HOLDS_PLAIN;
    if (changes_lease) {
        RedisModule_SetAbsExpire(holds->key, lease_end);
    }
    effectsHold(holds->ctx, holds->name, owner, count + 1,
                changes_lease ? lease_end : EFFECTS_SAME_LEASE);
    return count + 1;
}

int64_t holdsTake(struct holds *holds, RedisModuleString *owner, enum lockMode mode,
                  int64_t lease_ms) {
    return mode == MODE_EXCLUSIVE ? takePlain(holds, owner, lease_ms)
                                  : rwholdsTake(holds, owner, mode, lease_ms);
}

static int64_t releasePlain(struct holds *holds, RedisModuleString *owner) {
    int64_t count = lockkeyCount(holds, owner);
    if (count < 1) {
        return -1;
    }
    if (count == 1) {
        lockkeyDelete(holds);
    } else {
        lockkeyPut(holds, owner, count - 1);
        effectsHold(holds->ctx, holds->name, owner, count - 1, EFFECTS_SAME_LEASE);
    }
    return count - 1;
}

int64_t holdsRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode) {
    if (holds->shape == HOLDS_PLAIN && mode == MODE_EXCLUSIVE) {
        return releasePlain(holds, owner);
    }
    if (holds->shape == HOLDS_READ_WRITE && mode != MODE_EXCLUSIVE) {
        return rwholdsRelease(holds, owner, mode);
    }
    return -1;
}

static int64_t renewPlain(struct holds *holds, RedisModuleString *owner, int64_t lease_ms) {
    int64_t count = lockkeyCount(holds, owner);
    if (count < 1) {
        return 0;
    }
    lockkeySetEnd(holds, lockkeyEndAfter(holds, lease_ms));
    return count;
}

int64_t holdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms) {
    switch (holds->shape) {
    case HOLDS_PLAIN:
        return renewPlain(holds, owner, lease_ms);
    case HOLDS_READ_WRITE:
        return rwholdsRenew(holds, owner, lease_ms);
    case HOLDS_FREE:
    case HOLDS_FOREIGN:
    case HOLDS_WRONG_TYPE:
    case HOLDS_MOVING:
        break;
    }
    return 0;
}

int64_t holdsDrop(struct holds *holds, RedisModuleString *owner) {
    if (holds->shape == HOLDS_READ_WRITE) {
        return rwholdsDrop(holds, owner);
    }
    int64_t count = holds->shape == HOLDS_PLAIN ? lockkeyCount(holds, owner) : 0;
    if (count < 1) {
        return 0;
    }
    lockkeyDelete(holds);
    return count;
}

bool holdsForce(struct holds *holds) {
    RedisModule_Assert(holds->shape != HOLDS_MOVING);
    if (holdsIsFree(holds)) {
        return false;
    }
    if (holds->shape == HOLDS_READ_WRITE) {
        rwholdsForce(holds);
    } else {
        lockkeyDelete(holds);
    }
    return true;
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
    struct holder holder = {.owner = field, .mode = MODE_EXCLUSIVE};
    if (lockkeyParseCount(value, &holder.count)) {
        visitor->visit(&holder, visitor->context);
    }
}

int64_t holdsLeaseEnd(struct holds *holds, const struct holder *holder) {
    return holds->shape == HOLDS_READ_WRITE ? rwholdsLeaseEnd(holds, holder->owner, holder->mode)
                                            : lockkeyEnd(holds);
}

void holdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
               void *context) {
    if (holds->shape == HOLDS_READ_WRITE) {
        rwholdsEach(holds, visit, context);
    }
    if (holds->shape != HOLDS_PLAIN) {
        return;
    }
    struct visitor visitor = {holds, visit, context};
    RedisModuleScanCursor *cursor = RedisModule_ScanCursorCreate();
    while (RedisModule_ScanKey(holds->key, cursor, visitField, &visitor)) {
    }
    RedisModule_ScanCursorDestroy(cursor);
}
