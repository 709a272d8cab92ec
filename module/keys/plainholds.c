/* See plainholds.h. */
#include "keys/plainholds.h"

#include "keys/ownerfield.h"
#include "server/propagate.h"

int64_t plainholdsTake(struct holds *holds, const struct holdsGrant *request) {
    RedisModuleString *owner = request->owner;
    bool is_new = holds->kind == HOLDS_FREE;
    int64_t count = request->is_first ? 0 : holdsCount(holds, owner);
    if (count == RULES_MAX_HOLDS) {
        return 0;
    }
    int64_t lease_end = holdsEndAfter(holds, request->lease_ms);
    bool changes_lease = is_new || lease_end > holdsKeyEnd(holds);
    holdsPut(holds, owner, count + 1);
    holds->kind = HOLDS_PLAIN;
    if (changes_lease) {
        RedisModule_SetAbsExpire(holds->key, lease_end);
    }
    const struct propagateHold hold = {owner, count + 1, lease_end};
    if (changes_lease) {
        propagateHold(holds->ctx, holds->name, &hold);
    } else {
        propagateCount(holds->ctx, holds->name, owner, count + 1);
    }
    return count + 1;
}

int64_t plainholdsLengthen(struct holds *holds, const struct holdsGrant *request) {
    int64_t end_ms = holdsEndAfter(holds, request->lease_ms);
    if (end_ms > holdsKeyEnd(holds)) {
        holdsSetKeyEnd(holds, end_ms);
    }
    return holdsCount(holds, request->owner);
}

int64_t plainholdsRelease(struct holds *holds, RedisModuleString *owner) {
    int64_t count = holdsCount(holds, owner);
    if (count < 1) {
        return -1;
    }
    if (count == 1) {
        holdsDelete(holds);
    } else {
        holdsPut(holds, owner, count - 1);
        propagateCount(holds->ctx, holds->name, owner, count - 1);
    }
    return count - 1;
}

int64_t plainholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms) {
    int64_t count = holdsCount(holds, owner);
    if (count < 1) {
        return 0;
    }
    holdsSetKeyEnd(holds, holdsEndAfter(holds, lease_ms));
    return count;
}

struct visitor {
    void (*visit)(const struct holder *holder, void *context);
    void *context;
};

static void plainholdsVisitField(RedisModuleKey *key, RedisModuleString *field,
                                 RedisModuleString *value, void *data) {
    (void)key;
    struct visitor *visitor = data;
    struct holder holder = {.owner = field, .mode = MODE_EXCLUSIVE};
    if (ownerfieldIsOwner(field) && holdsParseCount(value, &holder.count)) {
        visitor->visit(&holder, visitor->context);
    }
}

void plainholdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
                    void *context) {
    struct visitor visitor = {visit, context};
    RedisModuleScanCursor *cursor = RedisModule_ScanCursorCreate();
    while (RedisModule_ScanKey(holds->key, cursor, plainholdsVisitField, &visitor)) {
    }
    RedisModule_ScanCursorDestroy(cursor);
}
