/* The links between pending replies and the holds that they report, called shares: a share is one
 * hold of one reply.
 *
 *   inflightNew, inflightAdd                a pending reply, and what it reports
 *   inflightEnd                             it has been delivered, or its client has died
 *   inflightTold, inflightForget, inflightHas, inflightReleased
 *                                           what others do to the same holds meanwhile
 *   inflightAwaits, inflightEachAwaiting, inflightStands
 *                                           while it waits for replicas: acks.c
 *   inflightFirstLost, inflightFreeLost     for the drain: release.c
 *
 * The part of a hold that no delivered reply has reported is called *unreported*. Contracts are in
 * inflight.h; the reasons are in docs/design.md, "Grants in flight".
 */
#include "waits/inflight.h"

#include <string.h>

#include "blocking/drain.h"
#include "core/mem.h"
#include "keys/holds.h"
#include "server/server.h"
#include "waits/sessions.h"
#include "waits/unheard.h"

/* One hold that a reply reports or depends on. */
struct share {
    struct link in_shares; /* of the reply */
    struct link in_hold;
    struct inflight *of;
    struct inflightHold *hold;
    int64_t kept; /* the least `kept` of the hold once the reply is delivered */
    bool is_own;  /* the reply's grant has made the hold, even if it added nothing */
};

struct inflight {
    struct acquisitionSession session;
    int64_t granted_ms; /* or INFLIGHT_RENEWAL */
    struct list shares;
    struct ack *ack;
};

static struct {
    struct map by_hold;
    struct list lost;
} state;

/* ---- holds ---- */

/* The bytes that identify a hold: the length of the lock's name, the name, the owner. The database
 * is not among them, because SWAPDB changes it. Free them with memFree. */
static char *holdKey(RedisModuleString *name, RedisModuleString *owner, size_t *length) {
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

static struct inflightHold *ofEntry(struct mapEntry *entry) {
    return entry ? LIST_ELEMENT(entry, struct inflightHold, by_hold) : NULL;
}

static struct inflightHold *inDb(struct inflightHold *hold, int db) {
    while (hold && hold->db != db) {
        hold = ofEntry(mapFindNext(&hold->by_hold));
    }
    return hold;
}

/* The first hold in flight of this owner on this lock, in any mode, or NULL; nextHold has the
 * next. */
static struct inflightHold *firstHold(int db, RedisModuleString *name, RedisModuleString *owner) {
    if (state.by_hold.used == 0) {
        return NULL;
    }
    size_t length;
    char *key = holdKey(name, owner, &length);
    struct inflightHold *hold = ofEntry(mapFind(&state.by_hold, key, length));
    memFree(key);
    return inDb(hold, db);
}

static struct inflightHold *nextHold(const struct inflightHold *hold) {
    return inDb(ofEntry(mapFindNext(&hold->by_hold)), hold->db);
}

static RedisModuleString *shared(RedisModuleString *string) {
    RedisModule_RetainString(NULL, string);
    return string;
}

static struct inflightHold *newHold(const struct inflightTaken *taken) {
    struct inflightHold *hold = memAlloc(sizeof(*hold));
    size_t length;
    hold->db = taken->of.db;
    hold->mode = taken->of.mode;
    hold->name = RedisModule_CreateStringFromString(NULL, taken->of.name);
    hold->owner = taken->owner_is_kept ? shared(taken->of.owner)
                                       : RedisModule_CreateStringFromString(NULL, taken->of.owner);
    hold->count = taken->added;
    hold->is_first = taken->added == taken->has;
    hold->hold_key = holdKey(taken->of.name, taken->of.owner, &length);
    mapAdd(&state.by_hold, &hold->by_hold, hold->hold_key, length);
    return hold;
}

static void freeHold(struct inflightHold *hold) {
    mapRemove(&state.by_hold, &hold->by_hold);
    RedisModule_FreeString(NULL, hold->name);
    RedisModule_FreeString(NULL, hold->owner);
    memFree(hold->hold_key);
    memFree(hold);
}

static void setLost(struct inflightHold *hold, bool is_lost) {
    if (is_lost && !hold->is_lost) {
        listAddLast(&state.lost, &hold->in_lost);
    } else if (!is_lost && hold->is_lost) {
        listRemove(&state.lost, &hold->in_lost);
    }
    hold->is_lost = is_lost;
}

/* How many of its holds are unreported. */
static int64_t untold(const struct inflightHold *hold) {
    return hold->count - hold->kept;
}

/* Without pending replies a hold is lost if some of it is unreported, and is freed otherwise. */
static void settle(struct inflightHold *hold) {
    setLost(hold, listIsEmpty(&hold->shares) && untold(hold) > 0);
    if (listIsEmpty(&hold->shares) && !hold->is_lost) {
        freeHold(hold);
    }
}

static void keep(struct inflightHold *hold, int64_t kept) {
    hold->kept = kept > hold->kept ? kept : hold->kept;
}

void inflightForget(int db, RedisModuleString *name, RedisModuleString *owner) {
    struct inflightHold *next, *hold = firstHold(db, name, owner);
    for (; hold; hold = next) {
        next = nextHold(hold);
        hold->is_gone = true;
        keep(hold, hold->count);
        settle(hold);
    }
}

/* `count` of its unreported holds have been removed in another way. */
static void forgetPart(struct inflightHold *hold, int64_t count) {
    keep(hold, hold->kept + count);
    hold->is_gone = hold->is_gone || (count > 0 && untold(hold) == 0);
    settle(hold);
}

void inflightHas(const struct inflightOwner *of, int64_t count) {
    struct inflightHold *next, *hold = firstHold(of->db, of->name, of->owner);
    for (; hold; hold = next) {
        next = nextHold(hold);
        if (hold->mode != of->mode) {
            continue;
        }
        int64_t here = untold(hold) < count ? untold(hold) : count;
        count -= here;
        forgetPart(hold, untold(hold) - here);
    }
}

void inflightReleased(const struct inflightOwner *of, int64_t count) {
    struct inflightHold *next, *hold = firstHold(of->db, of->name, of->owner);
    for (; hold && count > 0; hold = next) {
        next = nextHold(hold);
        if (hold->mode != of->mode) {
            continue;
        }
        int64_t part = untold(hold) < count ? untold(hold) : count;
        count -= part;
        forgetPart(hold, part);
    }
}

size_t inflightCount(void) {
    return state.by_hold.used;
}

struct swap {
    int first_db, second_db;
};

static void goAlong(struct mapEntry *entry, void *data) {
    const struct swap *swap = data;
    struct inflightHold *hold = ofEntry(entry);
    if (hold->db == swap->first_db) {
        hold->db = swap->second_db;
    } else if (hold->db == swap->second_db) {
        hold->db = swap->first_db;
    }
}

void inflightSwapped(int first_db, int second_db) {
    struct swap swap = {first_db, second_db};
    mapEach(&state.by_hold, goAlong, &swap);
}

struct inflightHold *inflightFirstLost(void) {
    return state.lost.first ? LIST_ELEMENT(state.lost.first, struct inflightHold, in_lost) : NULL;
}

void inflightFreeLost(struct inflightHold *hold) {
    setLost(hold, false);
    freeHold(hold);
}

void inflightPutLast(struct inflightHold *lost) {
    setLost(lost, false);
    setLost(lost, true);
}

/* ---- what a reply depends on ---- */

/* How many of the holds that the reply reports are in flight by other grants: those that it needs,
 * less those that its own grant has added, and less those that can no longer be lost. */
static int64_t reliesOn(const struct inflightTaken *taken, struct inflightHold *first) {
    int64_t settled = taken->has - taken->added;
    for (struct inflightHold *hold = first; hold; hold = nextHold(hold)) {
        settled -= hold->mode == taken->of.mode ? untold(hold) : 0;
    }
    return taken->needs - taken->added - (settled > 0 ? settled : 0);
}

/* How many unreported holds of `hold` the reply depends on: at most `*needed`, which is reduced by
 * them. */
static int64_t takeFrom(const struct inflightHold *hold, const struct inflightTaken *taken,
                        int64_t *needed) {
    int64_t part = hold->mode == taken->of.mode ? untold(hold) : 0;
    part = part < *needed ? part : *needed;
    *needed -= part;
    return part;
}

void inflightTold(const struct inflightTaken *taken) {
    struct inflightHold *next, *hold = firstHold(taken->of.db, taken->of.name, taken->of.owner);
    int64_t needed = reliesOn(taken, hold);
    for (; hold && needed > 0; hold = next) {
        next = nextHold(hold);
        keep(hold, hold->kept + takeFrom(hold, taken, &needed));
        settle(hold);
    }
}

/* ---- replies ---- */

struct inflight *inflightNew(const struct acquisitionSession *session, int64_t granted_ms) {
    struct inflight *inflight = memAlloc(sizeof(*inflight));
    inflight->session = *session;
    inflight->granted_ms = granted_ms;
    return inflight;
}

static void addShare(struct inflight *inflight, struct inflightHold *hold, int64_t count,
                     bool is_own) {
    struct share *share = memAlloc(sizeof(*share));
    share->hold = hold;
    share->kept = hold->kept + count;
    share->is_own = is_own;
    share->of = inflight;
    listAddLast(&inflight->shares, &share->in_shares);
    listAddLast(&hold->shares, &share->in_hold);
    setLost(hold, false);
}

void inflightAdd(struct inflight *inflight, const struct inflightTaken *taken) {
    struct inflightHold *hold = firstHold(taken->of.db, taken->of.name, taken->of.owner);
    int64_t needed = reliesOn(taken, hold);
    for (; hold && needed > 0; hold = nextHold(hold)) {
        int64_t part = takeFrom(hold, taken, &needed);
        if (part > 0) {
            addShare(inflight, hold, part, false);
        }
    }
    addShare(inflight, newHold(taken), taken->added, true);
}

static struct share *ofAnswer(struct link *link) {
    return link ? LIST_ELEMENT(link, struct share, in_shares) : NULL;
}

void inflightDrop(struct inflight *inflight) {
    RedisModule_Assert(!inflight->shares.first);
    memFree(inflight);
}

/* ---- replies that wait for replicas ---- */

void inflightAwaits(struct inflight *inflight, struct ack *ack) {
    inflight->ack = ack;
}

void inflightEachAwaiting(int db, RedisModuleString *name, RedisModuleString *owner,
                          void (*visit)(struct ack *ack, void *data), void *data) {
    struct inflightHold *hold = firstHold(db, name, owner);
    for (; hold; hold = nextHold(hold)) {
        for (struct link *link = hold->shares.first; link; link = link->next) {
            struct ack *ack = LIST_ELEMENT(link, struct share, in_hold)->of->ack;
            if (ack) {
                visit(ack, data);
            }
        }
    }
}

bool inflightStands(RedisModuleCtx *ctx, const struct inflight *inflight) {
    int64_t now_ms = RedisModule_Milliseconds();
    bool stands = true;
    struct share *share = ofAnswer(inflight->shares.first);
    for (; share && stands; share = ofAnswer(share->in_shares.next)) {
        const struct inflightHold *hold = share->hold;
        const struct holdsOwner of = {hold->db, hold->name, hold->owner};
        stands = !share->is_own || (!hold->is_gone && holdsAreThere(ctx, &of, now_ms));
    }
    return stands;
}

/* ---- how a reply ends ---- */

static void bind(RedisModuleCtx *ctx, const struct inflightHold *of,
                 const struct acquisitionSession *session) {
    const struct sessionsHold hold = {of->db, of->name, of->owner};
    if (!of->is_gone) {
        sessionsBind(ctx, &hold, session, RedisModule_Milliseconds());
    }
}

/* The reply has been delivered, but the client may have stopped reading: the grant is
 * unconfirmed. */
static void noteUnheard(RedisModuleCtx *ctx, const struct inflightHold *of, int64_t granted_ms) {
    const struct unheardGrant grant = {.of = {of->db, of->name, of->owner},
                                       .client_id = RedisModule_GetClientId(ctx),
                                       .granted_ms = granted_ms,
                                       .is_first = of->is_first};
    if (!of->is_gone) {
        unheardBegin(&grant);
    }
}

static void endShare(struct inflight *inflight, struct share *share, bool delivered) {
    if (delivered) {
        keep(share->hold, share->kept);
    }
    listRemove(&share->hold->shares, &share->in_hold);
    settle(share->hold);
    listRemove(&inflight->shares, &share->in_shares);
    memFree(share);
}

void inflightEnd(RedisModuleCtx *ctx, bool delivered, void *data) {
    struct inflight *inflight = data;
    struct share *share;
    bool binds =
        delivered && inflight->session.client_id && serverWritableNow(ctx) != SERVER_IS_REPLICA;
    bool grants = delivered && inflight->granted_ms != INFLIGHT_RENEWAL;
    while ((share = ofAnswer(inflight->shares.first))) {
        if (grants && share->is_own) {
            noteUnheard(ctx, share->hold, inflight->granted_ms);
        }
        if (binds && share->is_own) {
            bind(ctx, share->hold, &inflight->session);
        }
        endShare(inflight, share, delivered);
    }
    inflightDrop(inflight);
    if (state.lost.first) {
        drainSetAlarm(ctx, 0);
    }
}
