/* The links between pending replies and the holds that they report. A link is called a share, and
 * is for one hold of one reply.
 *
 *   pendingreplyNew, pendingreplyAdd  create a pending reply, and add the holds that it reports
 *   pendingreplyEnd                   ends it when it was delivered, or the connection has closed
 *   pendingreplyConfirmed, pendingreplyForget, pendingreplyHas, pendingreplyReleased
 *                                           record what other commands have done to the same holds
 *   pendingreplyAwaits, pendingreplyEachAwaiting, pendingreplyIsValid
 *                                           are for replies that wait for replicas (acks.c)
 *   pendingreplyFirstLost, pendingreplyFreeHold
 *                                           are for the release of lost holds (release.c)
 *
 * The part of a hold that no delivered reply has reported is called *unreported*. Contracts are in
 * pendingreply.h. The reasons are in docs/design.md, "Grants in flight".
 */
#include "ledger/pendingreply.h"

#include <string.h>

#include "blocking/drain.h"
#include "core/features.h"
#include "core/mem.h"
#include "core/swappeddbs.h"
#include "keys/holds.h"
#include "ledger/sessions.h"
#include "ledger/unconfirmedrecords.h"
#include "server/server.h"

/* One hold that a reply reports or depends on. */
struct share {
    struct link in_shares; /* of the reply */
    struct link in_hold;
    struct pendingreply *of;
    struct pendingreplyHold *hold;
    int64_t retained; /* the least `retained` of the hold once the reply is delivered */
    bool is_own;      /* the reply's grant has made the hold, even if it added nothing */
};

struct pendingreply {
    struct requestSession session;
    int64_t granted_ms; /* or PENDINGREPLY_RENEWAL */
    struct list shares;
    struct ack *ack;
};

static struct {
    struct map by_hold;
    struct list lost;
    struct swappeddbs dbs;
} state;

/* ---- holds ---- */

/* The bytes that identify a hold: the length of the lock's name, the name, the owner. The database
 * is not among them, because SWAPDB changes it. Free them with memFree. */
static char *pendingreplyHoldKey(RedisModuleString *name, RedisModuleString *owner,
                                 size_t *length) {
    size_t name_length, owner_length;
    const char *name_bytes = RedisModule_StringPtrLen(name, &name_length);
    const char *owner_bytes = RedisModule_StringPtrLen(owner, &owner_length);
    *length = sizeof(name_length) + name_length + owner_length;
    char *key = memAlloc(*length);
    memcpy(key, &name_length, sizeof(name_length));
    memcpy(key + sizeof(name_length), name_bytes, name_length);
    memcpy(key + sizeof(name_length) + name_length, owner_bytes, owner_length);
    return key;
}

static struct pendingreplyHold *pendingreplyOfEntry(struct mapEntry *entry) {
    return LIST_ELEMENT_OR_NULL(entry, struct pendingreplyHold, by_hold);
}

static struct pendingreplyHold *inDb(struct pendingreplyHold *hold, int db) {
    while (hold && hold->db != db) {
        hold = pendingreplyOfEntry(mapFindNext(&hold->by_hold));
    }
    return hold;
}

/* The first hold in flight of this owner on this lock, in any mode, or NULL; nextHold has the
 * next. */
static struct pendingreplyHold *firstHold(const struct holdId *id) {
    if (state.by_hold.used == 0) {
        return NULL;
    }
    size_t length;
    char *key = pendingreplyHoldKey(id->name, id->owner, &length);
    struct pendingreplyHold *hold = pendingreplyOfEntry(mapFind(&state.by_hold, key, length));
    memFree(key);
    return inDb(hold, swappeddbsStaying(&state.dbs, id->db));
}

static struct pendingreplyHold *nextHold(const struct pendingreplyHold *hold) {
    return inDb(pendingreplyOfEntry(mapFindNext(&hold->by_hold)), hold->db);
}

static struct pendingreplyHold *newHold(const struct pendingreplyTaken *taken) {
    struct pendingreplyHold *hold = memAlloc(sizeof(*hold));
    size_t length;
    hold->db = swappeddbsStaying(&state.dbs, taken->id.db);
    hold->mode = taken->mode;
    hold->name = RedisModule_CreateStringFromString(NULL, taken->id.name);
    hold->owner = taken->id.owner;
    if (taken->owner_is_kept) {
        RedisModule_RetainString(NULL, hold->owner);
    } else {
        hold->owner = RedisModule_CreateStringFromString(NULL, hold->owner);
    }
    hold->count = taken->added;
    hold->is_first = taken->added == taken->has;
    hold->hold_key = pendingreplyHoldKey(taken->id.name, taken->id.owner, &length);
    mapAdd(&state.by_hold, &hold->by_hold, hold->hold_key, length);
    featuresBegin(FEATURE_PENDING_REPLIES);
    return hold;
}

static void setLost(struct pendingreplyHold *hold, bool is_lost) {
    if (is_lost && !hold->is_lost) {
        listAddLast(&state.lost, &hold->in_lost);
    } else if (!is_lost && hold->is_lost) {
        listRemove(&state.lost, &hold->in_lost);
    }
    hold->is_lost = is_lost;
}

void pendingreplyFreeHold(struct pendingreplyHold *hold) {
    if (hold->is_lost) {
        setLost(hold, false);
    }
    mapRemove(&state.by_hold, &hold->by_hold);
    featuresEnd(FEATURE_PENDING_REPLIES);
    RedisModule_FreeString(NULL, hold->name);
    RedisModule_FreeString(NULL, hold->owner);
    memFree(hold->hold_key);
    memFree(hold);
    if (state.by_hold.used == 0) {
        swappeddbsReset(&state.dbs);
    }
}

/* Without pending replies a hold is lost if some of it is unreported, and is freed otherwise. */
static void pendingreplySettle(struct pendingreplyHold *hold) {
    bool has_replies = !listIsEmpty(&hold->shares);
    if (!has_replies && pendingreplyUnreported(hold) == 0) {
        pendingreplyFreeHold(hold);
    } else {
        setLost(hold, !has_replies);
    }
}

static void pendingreplyKeep(struct pendingreplyHold *hold, int64_t retained) {
    hold->retained = retained > hold->retained ? retained : hold->retained;
}

void pendingreplyForget(const struct holdId *id) {
    struct pendingreplyHold *next, *hold = firstHold(id);
    for (; hold; hold = next) {
        next = nextHold(hold);
        hold->is_gone = true;
        pendingreplyKeep(hold, hold->count);
        pendingreplySettle(hold);
    }
}

/* `count` of its unreported holds have been removed in another way. */
static void removePart(struct pendingreplyHold *hold, int64_t count) {
    pendingreplyKeep(hold, hold->retained + count);
    hold->is_gone = hold->is_gone || (count > 0 && pendingreplyUnreported(hold) == 0);
    pendingreplySettle(hold);
}

void pendingreplyHas(const struct holdId *id, enum lockMode mode, int64_t count) {
    struct pendingreplyHold *next, *hold = firstHold(id);
    for (; hold; hold = next) {
        next = nextHold(hold);
        if (hold->mode != mode) {
            continue;
        }
        int64_t here = pendingreplyUnreported(hold) < count ? pendingreplyUnreported(hold) : count;
        count -= here;
        removePart(hold, pendingreplyUnreported(hold) - here);
    }
}

void pendingreplyReleased(const struct holdId *id, enum lockMode mode, int64_t count) {
    struct pendingreplyHold *next, *hold = firstHold(id);
    for (; hold && count > 0; hold = next) {
        next = nextHold(hold);
        if (hold->mode != mode) {
            continue;
        }
        int64_t part = pendingreplyUnreported(hold) < count ? pendingreplyUnreported(hold) : count;
        count -= part;
        removePart(hold, part);
    }
}

size_t pendingreplyCount(void) {
    return state.by_hold.used;
}

void pendingreplySwapped(int first_db, int second_db) {
    if (state.by_hold.used > 0) {
        swappeddbsSwap(&state.dbs, first_db, second_db);
    }
}

int pendingreplyDb(const struct pendingreplyHold *hold) {
    return swappeddbsCurrent(&state.dbs, hold->db);
}

struct pendingreplyHold *pendingreplyFirstLost(void) {
    return LIST_ELEMENT_OR_NULL(state.lost.first, struct pendingreplyHold, in_lost);
}

void pendingreplyPutLast(struct pendingreplyHold *lost) {
    setLost(lost, false);
    setLost(lost, true);
}

/* ---- what a reply depends on ---- */

/* How many of the holds that the reply reports are in flight by other grants: those that it needs,
 * less those that its own grant has added, and less those that can no longer be lost. */
static int64_t dependsOn(const struct pendingreplyTaken *taken, struct pendingreplyHold *first) {
    int64_t resolved = taken->has - taken->added;
    for (struct pendingreplyHold *hold = first; hold; hold = nextHold(hold)) {
        resolved -= hold->mode == taken->mode ? pendingreplyUnreported(hold) : 0;
    }
    return taken->needs - taken->added - (resolved > 0 ? resolved : 0);
}

/* How many unreported holds of `hold` the reply depends on: at most `*needed`, which is reduced by
 * them. */
static int64_t takeFrom(const struct pendingreplyHold *hold, const struct pendingreplyTaken *taken,
                        int64_t *needed) {
    int64_t part = hold->mode == taken->mode ? pendingreplyUnreported(hold) : 0;
    part = part < *needed ? part : *needed;
    *needed -= part;
    return part;
}

void pendingreplyConfirmed(const struct pendingreplyTaken *taken) {
    struct pendingreplyHold *next, *hold = firstHold(&taken->id);
    int64_t needed = dependsOn(taken, hold);
    for (; hold && needed > 0; hold = next) {
        next = nextHold(hold);
        pendingreplyKeep(hold, hold->retained + takeFrom(hold, taken, &needed));
        pendingreplySettle(hold);
    }
}

/* ---- replies ---- */

struct pendingreply *pendingreplyNew(const struct requestSession *session, int64_t granted_ms) {
    struct pendingreply *pendingreply = memAlloc(sizeof(*pendingreply));
    pendingreply->session = *session;
    pendingreply->granted_ms = granted_ms;
    return pendingreply;
}

static void addShare(struct pendingreply *pendingreply, struct pendingreplyHold *hold,
                     int64_t count, bool is_own) {
    struct share *share = memAlloc(sizeof(*share));
    share->hold = hold;
    share->retained = hold->retained + count;
    share->is_own = is_own;
    share->of = pendingreply;
    listAddLast(&pendingreply->shares, &share->in_shares);
    listAddLast(&hold->shares, &share->in_hold);
    if (hold->is_lost) {
        setLost(hold, false);
    }
}

void pendingreplyAdd(struct pendingreply *pendingreply, const struct pendingreplyTaken *taken) {
    struct pendingreplyHold *hold =
        featuresHas(FEATURE_PENDING_REPLIES) ? firstHold(&taken->id) : NULL;
    int64_t needed = hold ? dependsOn(taken, hold) : 0;
    for (; hold && needed > 0; hold = nextHold(hold)) {
        int64_t part = takeFrom(hold, taken, &needed);
        if (part > 0) {
            addShare(pendingreply, hold, part, false);
        }
    }
    addShare(pendingreply, newHold(taken), taken->added, true);
}

void pendingreplyDrop(struct pendingreply *pendingreply) {
    RedisModule_Assert(!pendingreply->shares.first);
    memFree(pendingreply);
}

/* ---- replies that wait for replicas ---- */

void pendingreplyAwaits(struct pendingreply *pendingreply, struct ack *ack) {
    pendingreply->ack = ack;
}

void pendingreplyEachAwaiting(const struct holdId *id, void (*visit)(struct ack *ack, void *data),
                              void *data) {
    struct pendingreplyHold *hold = firstHold(id);
    for (; hold; hold = nextHold(hold)) {
        for (struct link *link = hold->shares.first; link; link = link->next) {
            struct ack *ack = LIST_ELEMENT(link, struct share, in_hold)->of->ack;
            if (ack) {
                visit(ack, data);
            }
        }
    }
}

bool pendingreplyIsValid(RedisModuleCtx *ctx, const struct pendingreply *pendingreply) {
    int64_t now_ms = serverNow();
    bool stands = true;
    struct share *share = LIST_ELEMENT_OR_NULL(pendingreply->shares.first, struct share, in_shares);
    for (; share && stands;
         share = LIST_ELEMENT_OR_NULL(share->in_shares.next, struct share, in_shares)) {
        const struct pendingreplyHold *hold = share->hold;
        const struct holdId id = {pendingreplyDb(hold), hold->name, hold->owner};
        stands = !share->is_own || (!hold->is_gone && holdsAreThere(ctx, &id, now_ms));
    }
    return stands;
}

/* ---- how a reply ends ---- */

static void pendingreplyBind(RedisModuleCtx *ctx, const struct pendingreplyHold *of,
                             const struct requestSession *session) {
    const struct holdId id = {pendingreplyDb(of), of->name, of->owner};
    if (!of->is_gone) {
        sessionsBind(ctx, &id, session, serverNow());
    }
}

/* The reply has been delivered, but the client may have stopped reading: the grant is
 * unconfirmed. */
static void noteUnconfirmed(RedisModuleCtx *ctx, const struct pendingreplyHold *of,
                            int64_t granted_ms) {
    const struct unconfirmedGrant grant = {.id = {pendingreplyDb(of), of->name, of->owner},
                                           .client_id = RedisModule_GetClientId(ctx),
                                           .granted_ms = granted_ms,
                                           .is_first = of->is_first};
    if (!of->is_gone) {
        unconfirmedrecordsAdd(&grant);
    }
}

static void endShare(struct pendingreply *pendingreply, struct share *share, bool delivered) {
    if (delivered) {
        pendingreplyKeep(share->hold, share->retained);
    }
    listRemove(&share->hold->shares, &share->in_hold);
    pendingreplySettle(share->hold);
    listRemove(&pendingreply->shares, &share->in_shares);
    memFree(share);
}

void pendingreplyEnd(RedisModuleCtx *ctx, bool delivered, void *data) {
    struct pendingreply *pendingreply = data;
    struct share *share;
    bool binds =
        delivered && pendingreply->session.client_id && serverWritableNow(ctx) != SERVER_IS_REPLICA;
    bool grants = delivered && pendingreply->granted_ms != PENDINGREPLY_RENEWAL;
    while ((share = LIST_ELEMENT_OR_NULL(pendingreply->shares.first, struct share, in_shares))) {
        if (grants && share->is_own) {
            noteUnconfirmed(ctx, share->hold, pendingreply->granted_ms);
        }
        if (binds && share->is_own) {
            pendingreplyBind(ctx, share->hold, &pendingreply->session);
        }
        endShare(pendingreply, share, delivered);
    }
    pendingreplyDrop(pendingreply);
    if (state.lost.first) {
        drainSetAlarm(ctx, DRAIN_LOST_HOLDS, 0);
    }
}
