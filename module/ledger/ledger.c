/* See ledger.h. */
#include "ledger/ledger.h"

#include "core/features.h"
#include "core/rules.h"
#include "keys/tally.h"
#include "ledger/sessions.h"
#include "ledger/unconfirmed.h"
#include "observing/watches.h"
#include "waits/contended.h"

/* ---- by the module ---- */

/* A first hold inherits nothing from earlier holds that were removed in another way: neither their
 * binding, nor that they were to be released. */
static void ledgerForgetEarlier(const struct holdId *id) {
    if (featuresHas(FEATURE_PENDING_REPLIES)) {
        pendingreplyForget(id);
    }
    if (featuresHas(FEATURE_SESSIONS)) {
        sessionsUnbind(id);
    }
}

/* The command that has made the request replies at once: with that the grant is confirmed. */
static void ledgerReplied(struct holds *holds, const struct request *wants,
                          const struct pendingreplyTaken *taken) {
    unconfirmedEnd(holds->ctx, holds->name, wants->owner);
    pendingreplyConfirmed(taken);
    if (wants->session.client_id) {
        sessionsBind(holds->ctx, &taken->id, &wants->session, holds->now_ms);
    }
}

void ledgerTaken(struct holds *holds, const struct request *wants,
                 const struct ledgerGrant *grant) {
    if (!grant->pendingreply && !wants->session.client_id && !featuresInUse()) {
        return;
    }
    const struct pendingreplyTaken taken = {.id = holdsIdOf(holds, wants->owner),
                                            .mode = wants->lock.mode,
                                            .added = grant->added,
                                            .has = grant->has,
                                            .owner_is_kept = wants->owner_is_kept,
                                            .needs = wants->lock.once ? grant->count : 0};
    if (grant->is_first) {
        ledgerForgetEarlier(&taken.id);
    }
    if (featuresHas(FEATURE_PENDING_REPLIES)) {
        pendingreplyHas(&taken.id, taken.mode, taken.has - taken.added);
    }
    if (grant->pendingreply) {
        pendingreplyAdd(grant->pendingreply, &taken);
    } else {
        ledgerReplied(holds, wants, &taken);
    }
}

/* The owner has released its last hold in one mode. If it has none in the other mode either, its
 * holds are no longer bound to a connection. */
static void unbindIfGone(struct holds *holds, RedisModuleString *owner) {
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    if (!rulesOwnsAny(&view)) {
        const struct holdId id = holdsIdOf(holds, owner);
        sessionsUnbind(&id);
    }
}

/* A release by the owner takes holds in flight first, and confirms the owner's grants. The release
 * of a lost hold does neither, because no client has sent it. */
void ledgerReleased(struct holds *holds, RedisModuleString *owner,
                    const struct ledgerRelease *release) {
    if (!featuresInUse()) {
        return;
    }
    if (release->left == 0 && featuresHas(FEATURE_SESSIONS)) {
        unbindIfGone(holds, owner);
    }
    if (release->left == 0) {
        watchesNoteOwner(holds->ctx, holds->name, owner);
    }
    if (release->is_lost) {
        return;
    }
    unconfirmedEnd(holds->ctx, holds->name, owner);
    if (featuresHas(FEATURE_PENDING_REPLIES)) {
        const struct holdId id = holdsIdOf(holds, owner);
        pendingreplyReleased(&id, release->mode, release->count);
    }
}

/* The renewal's client depends on the holds from now on, whichever client was to receive a reply
 * about them; with `pendingreply`, once that reply has been delivered. */
static void ledgerReported(struct holds *holds, RedisModuleString *owner,
                           struct pendingreply *pendingreply) {
    struct holdsView view;
    holdsSeenBy(holds, owner, &view);
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        const struct pendingreplyTaken reported = {.id = holdsIdOf(holds, owner),
                                                   .mode = (enum lockMode)mode,
                                                   .has = view.own[mode],
                                                   .needs = view.own[mode]};
        if (!pendingreply) {
            pendingreplyConfirmed(&reported);
        } else if (reported.has > 0) {
            pendingreplyAdd(pendingreply, &reported);
        }
    }
}

void ledgerRenewed(struct holds *holds, RedisModuleString *owner,
                   struct pendingreply *pendingreply) {
    if (pendingreply || featuresHas(FEATURE_PENDING_REPLIES)) {
        ledgerReported(holds, owner, pendingreply);
    }
    watchesNoteOwner(holds->ctx, holds->name, owner);
}

void ledgerConfirmed(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner) {
    unconfirmedEnd(ctx, name, owner);
}

void ledgerDropped(struct holds *holds, RedisModuleString *owner) {
    unconfirmedEnd(holds->ctx, holds->name, owner);
    watchesNoteOwner(holds->ctx, holds->name, owner);
}

void ledgerForced(struct holds *holds) {
    unconfirmedForced(holds->ctx, holds->name);
    watchesNoteAll(holds->ctx, holds->name);
}

/* ---- by the server, and by other clients ---- */

void ledgerKeyChanged(RedisModuleCtx *ctx, RedisModuleString *name, unsigned notes) {
    int db = RedisModule_GetSelectedDb(ctx);
    tallyForget(db, name);
    unconfirmedKeyChanged(ctx, db, name);
    blockingkeyNoteKey(ctx, db, name, notes);
}

void ledgerFlushed(RedisModuleCtx *ctx, int db) {
    tallyForgetAll();
    unconfirmedFlushed(db);
    sessionsLookAgain(ctx);
    blockingkeyNoteAll(ctx, db < 0 ? BLOCKINGKEY_EVERY_DB : db, BLOCKINGKEY_FLUSHED);
}

/* A client stays in the database with its number, and so does its wait: it now waits for whatever
 * the swap has moved there, as with BLPOP. Only positions in a fair queue have to be written
 * again. */
void ledgerSwapped(RedisModuleCtx *ctx, int first_db, int second_db) {
    tallyForgetAll();
    sessionsSwapped(first_db, second_db);
    pendingreplySwapped(first_db, second_db);
    unconfirmedrecordsSwapped(first_db, second_db);
    blockingkeyNoteAll(ctx, first_db, BLOCKINGKEY_EDITED);
    blockingkeyNoteAll(ctx, second_db, BLOCKINGKEY_EDITED);
    contendedSwapped(ctx, first_db, second_db);
}

void ledgerLoaded(RedisModuleCtx *ctx) {
    tallyForgetAll();
    sessionsLookAgain(ctx);
    blockingkeyNoteAll(ctx, BLOCKINGKEY_EVERY_DB, BLOCKINGKEY_EDITED);
    contendedLoaded(ctx);
}

/* Even if it is promoted again before the next renewals, none of the holds belongs to a session
 * here. (A server that becomes a master has no sessions.) */
void ledgerBecameReplica(RedisModuleCtx *ctx) {
    (void)ctx;
    sessionsForgetAll();
    unconfirmedFlushed(UNCONFIRMED_EVERY_DB);
}
