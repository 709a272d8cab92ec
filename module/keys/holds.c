/* See holds.h.
 *
 *   holdsOpenToWrite, holdsOpenToRead, holdsClose       open and close a handle
 *   holdsSeenBy, holdsIsFree, holdsEach, holdsNextEnd   return holders, and when leases end
 *   holdsMakeRoom                                       removes expired permits of a semaphore
 *   holdsTake, holdsLengthen, holdsRelease, holdsRenew  change holds at the owner's request
 *   holdsDrop, holdsForce                               remove holds without such a request
 *
 * The holds of plain locks are here too; those of read-write locks are in rwholds.c, and those
 * of semaphores in semholds.c. To add a kind of lock, add it to enum holdsKind, make kindOf
 * recognize it, and add a case to each function that depends on the kind.
 */
#include "keys/holds.h"
#include "keys/holdkey.h"

#include <string.h>

#include "common/propagate.h"
#include "keys/leasedholds.h"
#include "keys/ownerfield.h"
#include "keys/rwholds.h"
#include "keys/semholds.h"

/* ---- the key itself ---- */

static bool holdsSpells(RedisModuleString *value, const char *word) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(value, &length);
    return length == strlen(word) && memcmp(bytes, word, length) == 0;
}

/* What the field `mode` says; MODE_COUNT if the module has not written that. */
static enum lockMode readMode(struct holds *holds) {
    RedisModuleString *value = NULL;
    RedisModule_HashGet(holds->key, REDISMODULE_HASH_NONE, holdkeyModeField(), &value, NULL);
    if (!value) {
        return MODE_COUNT;
    }
    int mode = MODE_READ;
    while (mode < MODE_COUNT &&
           !(holdkeyModeText(mode) && holdsSpells(value, holdkeyModeText(mode)))) {
        mode++;
    }
    RedisModule_FreeString(holds->ctx, value);
    return mode;
}

/* A lock with many holders has a field `mode`. A plain lock has one field, its owner's. */
static enum holdsKind kindOf(struct holds *holds) {
    int type = RedisModule_KeyType(holds->key);
    if (type != REDISMODULE_KEYTYPE_HASH) {
        return type == REDISMODULE_KEYTYPE_EMPTY ? HOLDS_FREE : HOLDS_WRONG_TYPE;
    }
    if (RedisModule_ValueLength(holds->key) == 1) {
        return HOLDS_PLAIN; /* or the rest of another kind: see hasModeOnly */
    }
    holds->mode = readMode(holds);
    if (holds->mode == MODE_SEMAPHORE) {
        return HOLDS_SEMAPHORE;
    }
    return holds->mode == MODE_COUNT ? HOLDS_FOREIGN : HOLDS_READ_WRITE;
}

/* Whether a key of the kind HOLDS_PLAIN has the field `mode` and nothing else: another client has
 * removed the last owner of another lock directly. Not tested when the key is opened, because plain
 * locks would pay for it. */
static bool hasModeOnly(struct holds *holds) {
    return holds->kind == HOLDS_PLAIN && readMode(holds) != MODE_COUNT;
}

/* ---- the holds of a plain lock ---- */

static int64_t plainTake(struct holds *holds, const struct holdsGrant *request) {
    RedisModuleString *owner = request->owner;
    bool is_new = holds->kind == HOLDS_FREE;
    int64_t count = request->is_first ? 0 : holdkeyCount(holds, owner);
    if (count == RULES_MAX_HOLDS) {
        return 0;
    }
    int64_t lease_end = holdkeyEndAfter(holds, request->lease_ms);
    bool changes_lease = is_new || lease_end > holdkeyEnd(holds);
    holdkeyPut(holds, owner, count + 1);
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

static int64_t plainLengthen(struct holds *holds, const struct holdsGrant *request) {
    int64_t end_ms = holdkeyEndAfter(holds, request->lease_ms);
    if (end_ms > holdkeyEnd(holds)) {
        holdkeySetEnd(holds, end_ms);
    }
    return holdkeyCount(holds, request->owner);
}

static int64_t plainRelease(struct holds *holds, RedisModuleString *owner) {
    int64_t count = holdkeyCount(holds, owner);
    if (count < 1) {
        return -1;
    }
    if (count == 1) {
        holdkeyDelete(holds);
    } else {
        holdkeyPut(holds, owner, count - 1);
        propagateCount(holds->ctx, holds->name, owner, count - 1);
    }
    return count - 1;
}

static int64_t plainRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms) {
    int64_t count = holdkeyCount(holds, owner);
    if (count < 1) {
        return 0;
    }
    holdkeySetEnd(holds, holdkeyEndAfter(holds, lease_ms));
    return count;
}

struct visitor {
    void (*visit)(const struct holder *holder, void *context);
    void *context;
};

static void plainVisitField(RedisModuleKey *key, RedisModuleString *field, RedisModuleString *value,
                            void *data) {
    (void)key;
    struct visitor *visitor = data;
    struct holder holder = {.owner = field, .mode = MODE_EXCLUSIVE};
    if (ownerfieldIsOwner(field) && holdkeyParseCount(value, &holder.count)) {
        visitor->visit(&holder, visitor->context);
    }
}

static void plainEach(struct holds *holds,
                      void (*visit)(const struct holder *holder, void *context), void *context) {
    struct visitor visitor = {visit, context};
    RedisModuleScanCursor *cursor = RedisModule_ScanCursorCreate();
    while (RedisModule_ScanKey(holds->key, cursor, plainVisitField, &visitor)) {
    }
    RedisModule_ScanCursorDestroy(cursor);
}

/* ---- the handle ---- */

bool holdsLeasesAreHere(struct holds *holds) {
    return !holdkeyIsLeased(holds) || holdsSidesAreHere(holds);
}

/* The kind, for a handle that may write, of a lock whose holds have leases of their own: the one in
 * the key, unless the leases cannot be written. */
static enum holdsKind kindWithLeases(struct holds *holds) {
    if (!holdsSidesAreHere(holds)) {
        return HOLDS_MOVING;
    }
    return leasedholdsLeases(holds)->in_use ? HOLDS_IN_USE : holds->kind;
}

static enum holdsKind open(struct holds *holds) {
    holds->key = keynamesOpen(holds->ctx, holds->name, holds->access);
    holds->kind = kindOf(holds);
    if (keynamesIsInUse(holds->key, holds->access)) {
        holds->kind = HOLDS_IN_USE;
    } else if (holdkeyIsLeased(holds) && holds->access == KEY_TO_WRITE) {
        holds->kind = kindWithLeases(holds);
    }
    if (holds->kind == HOLDS_READ_WRITE) {
        rwholdsOpen(holds);
    }
    return holds->kind;
}

enum holdsKind holdsOpenToWrite(struct holds *holds, RedisModuleCtx *ctx, RedisModuleString *name,
                                int64_t now_ms) {
    *holds = (struct holds){.ctx = ctx, .name = name, .now_ms = now_ms, .access = KEY_TO_WRITE};
    return open(holds);
}

enum holdsKind holdsOpenToRead(struct holds *holds, RedisModuleCtx *ctx, RedisModuleString *name,
                               int64_t now_ms) {
    *holds = (struct holds){.ctx = ctx, .name = name, .now_ms = now_ms, .access = KEY_TO_READ};
    return open(holds);
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
    if (holds->leases.name) {
        holdsCloseLeases(holds);
    }
    RedisModule_CloseKey(holds->key);
    holds->key = NULL;
}

/* If another client has removed the last owner directly, the rest belongs to no owner. Its leases
 * are closed again, because those of other locks may be open (multikey.c). */
bool holdsIsFree(struct holds *holds) {
    if (holds->kind == HOLDS_SEMAPHORE) {
        return semholdsIsFree(holds);
    }
    if (hasModeOnly(holds)) {
        if (holds->access == KEY_TO_WRITE) {
            leasedholdsClear(holds);
            holdsCloseLeases(holds);
        }
        holds->kind = HOLDS_FREE;
    }
    return holds->kind == HOLDS_FREE;
}

void holdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view) {
    RedisModule_Assert(holds->kind != HOLDS_WRONG_TYPE);
    *view =
        (struct holdsView){.foreign = holds->kind == HOLDS_FOREIGN || holds->kind == HOLDS_MOVING ||
                                      holds->kind == HOLDS_IN_USE};
    if (holds->kind == HOLDS_READ_WRITE) {
        rwholdsSeenBy(holds, owner, view);
    } else if (holds->kind == HOLDS_SEMAPHORE) {
        semholdsSeenBy(holds, owner, view);
    }
    if (holds->kind != HOLDS_PLAIN) {
        return;
    }
    int64_t count = holdkeyCount(holds, owner);
    view->foreign = count < 0;
    view->own[MODE_EXCLUSIVE] = count > 0 ? count : 0;
    view->others[MODE_EXCLUSIVE] = count == 0 && !holdsIsFree(holds);
}

int64_t holdsOwn(struct holds *holds, RedisModuleString *owner, enum lockMode mode) {
    if (holds->kind == HOLDS_PLAIN && mode == MODE_EXCLUSIVE) {
        return holdkeyCount(holds, owner);
    }
    bool is_mode_of_it = mode == MODE_READ || mode == MODE_WRITE;
    return holds->kind == HOLDS_READ_WRITE && is_mode_of_it ? rwholdsOwn(holds, owner, mode) : 0;
}

int64_t holdsNextEnd(struct holds *holds) {
    if (holds->kind == HOLDS_SEMAPHORE) {
        return semholdsNextEnd(holds);
    }
    return holds->kind == HOLDS_READ_WRITE ? leasesFirstEnd(leasedholdsLeases(holds))
                                           : holdkeyEnd(holds);
}

bool holdsMakeRoom(struct holds *holds, int64_t most) {
    return holds->kind == HOLDS_SEMAPHORE && semholdsMakeRoom(holds, most);
}

void holdsPrune(struct holds *holds) {
    semholdsPrune(holds);
}

enum result holdsCanLease(struct holds *holds) {
    const struct leases *leases = leasedholdsLeases(holds);
    if (leases->in_use) {
        return RESULT_KEY_IN_USE;
    }
    return leasesIsWrongType(leases) ? RESULT_WRONG_TYPE : RESULT_DONE;
}

int64_t holdsTake(struct holds *holds, const struct holdsGrant *request) {
    switch (request->mode) {
    case MODE_EXCLUSIVE:
        return plainTake(holds, request);
    case MODE_READ:
    case MODE_WRITE:
        return rwholdsTake(holds, request);
    case MODE_SEMAPHORE:
        return semholdsTake(holds, request);
    case MODE_COUNT:
        break;
    }
    return 0;
}

int64_t holdsLengthen(struct holds *holds, const struct holdsGrant *request) {
    return holdkeyIsLeased(holds) ? leasedholdsLengthenHold(holds, request)
                                  : plainLengthen(holds, request);
}

int64_t holdsRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode,
                     int64_t count) {
    if (holds->kind == HOLDS_PLAIN && mode == MODE_EXCLUSIVE) {
        return plainRelease(holds, owner);
    }
    if (holds->kind == HOLDS_READ_WRITE && (mode == MODE_READ || mode == MODE_WRITE)) {
        return rwholdsRelease(holds, owner, mode);
    }
    if (holds->kind == HOLDS_SEMAPHORE && mode == MODE_SEMAPHORE) {
        return semholdsRelease(holds, owner, count);
    }
    return -1;
}

int64_t holdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms) {
    switch (holds->kind) {
    case HOLDS_PLAIN:
        return plainRenew(holds, owner, lease_ms);
    case HOLDS_READ_WRITE:
        return rwholdsRenew(holds, owner, lease_ms);
    case HOLDS_SEMAPHORE:
        return semholdsRenew(holds, owner, lease_ms);
    case HOLDS_FREE:
    case HOLDS_FOREIGN:
    case HOLDS_WRONG_TYPE:
    case HOLDS_MOVING:
    case HOLDS_IN_USE:
        break;
    }
    return 0;
}

int64_t holdsDrop(struct holds *holds, RedisModuleString *owner) {
    if (holds->kind == HOLDS_READ_WRITE) {
        return rwholdsDrop(holds, owner);
    }
    if (holds->kind == HOLDS_SEMAPHORE) {
        return semholdsDrop(holds, owner);
    }
    int64_t count = holds->kind == HOLDS_PLAIN ? holdkeyCount(holds, owner) : 0;
    if (count < 1) {
        return 0;
    }
    holdkeyDelete(holds);
    return count;
}

bool holdsForce(struct holds *holds) {
    RedisModule_Assert(holds->kind != HOLDS_MOVING && holds->kind != HOLDS_IN_USE);
    if (holdsIsFree(holds)) {
        return false;
    }
    if (holdkeyIsLeased(holds)) {
        leasedholdsClear(holds);
    } else {
        holdkeyDelete(holds);
    }
    return true;
}

int64_t holdsLeaseEnd(struct holds *holds, const struct holder *holder) {
    return holdkeyIsLeased(holds) ? leasedholdsEnd(holds, holder->owner, holder->mode)
                                  : holdkeyEnd(holds);
}

int64_t holdsEndOf(struct holds *holds, RedisModuleString *owner) {
    int64_t end_ms = 0;
    if (holds->kind == HOLDS_SEMAPHORE) {
        end_ms = semholdsEndOf(holds, owner);
    } else if (holds->kind == HOLDS_READ_WRITE) {
        end_ms = rwholdsEndOf(holds, owner);
    } else if (holds->kind == HOLDS_PLAIN && holdkeyCount(holds, owner) > 0) {
        end_ms = holdkeyEnd(holds);
    }
    return leaseExpired(end_ms, holds->now_ms) ? 0 : end_ms;
}

bool holdsAreThere(RedisModuleCtx *ctx, const struct holdId *id, int64_t now_ms) {
    struct holds holds;
    RedisModule_SelectDb(ctx, id->db);
    holdsOpenToRead(&holds, ctx, id->name, now_ms);
    bool are_there = holdsEndOf(&holds, id->owner) > 0;
    holdsClose(&holds);
    return are_there;
}

void holdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
               void *context) {
    if (holdkeyIsLeased(holds)) {
        leasedholdsEach(holds, visit, context);
    } else if (holds->kind == HOLDS_PLAIN) {
        plainEach(holds, visit, context);
    }
}

/* ---- for other layers ---- */

int64_t holdsCount(struct holds *holds, RedisModuleString *field) {
    return holdkeyCount(holds, field);
}

size_t holdsFieldCount(const struct holds *holds) {
    return holdkeyFieldCount(holds);
}

void holdsBegin(void) {
    holdkeyBegin();
}

void holdsFree(void) {
    holdkeyFree();
}
