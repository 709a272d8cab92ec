/* See single_parts.h. Confirms a grant, renews it, and watches for its loss. */
#include "hold/single_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "hold/lease.h"
#include "hold/requests.h"
#include "net/replies.h"

#define LEASE_IF_UNKNOWN_MS 3000
#define LONGEST_BEAT_MS 10000
/* An alarm that is this late means that this process did not run. */
#define LATE_MS 200

void singleLose(struct single *single, const char *why, int64_t until_ms) {
    if (single->stage == SINGLE_HOLDING && !single->is_lost) {
        single->is_lost = true;
        alarmStop(&single->beat);
        alarmStop(&single->clock);
        single->watch->lost(single->arg, why, until_ms);
    }
}

static int64_t beatOf(const struct single *single) {
    int64_t third = single->lease_ms / 3;
    return third < LONGEST_BEAT_MS ? third : LONGEST_BEAT_MS;
}

void singleHoldUntil(struct single *single, int64_t until_ms, int64_t span_ms) {
    single->until_ms = until_ms;
    single->notice_ms = leaseNotice(span_ms, single->grace_ms);
    alarmSet(&single->clock, until_ms - single->notice_ms - clockNow());
}

/* The server has reported the loss. */
static void beGone(struct single *single, const char *why) {
    single->is_gone = true;
    singleLose(single, why, clockNow());
}

static void onWatched(void *arg, redisReply *reply) {
    struct single *single = arg;
    if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "LOST") == 0) {
        beGone(single, "another client may hold it now");
    } else if (reply->type == REDIS_REPLY_NIL) {
        singleWatchLoss(single); /* another client ended the watch with CLIENT UNBLOCK */
    } else if (!serverGoesOn(&single->second, reply)) {
        serverClose(&single->second); /* no permission: then only renewals detect a loss */
    }
}

void singleWatchLoss(struct single *single) {
    struct words words;
    requestWatch(&words, single->wish);
    singleAsk(single, &single->second, &words, 0, onWatched);
}

static void beginToHold(struct single *single) {
    single->stage = SINGLE_HOLDING;
    single->was_held = true;
    if (serverIsOpen(&single->second)) {
        singleWatchLoss(single);
    } else {
        serverOpen(&single->second);
    }
    single->watch->held(single->arg, single->token);
}

static void onGoodRenewal(struct single *single) {
    int64_t until_ms = leaseEnd(single->sent_ms, single->lease_ms);
    if (single->stage == SINGLE_CONFIRMING && clockNow() >= until_ms) {
        singleRenew(single); /* this process was stalled: it must not start with an expired lease */
        return;
    }
    single->is_cut = false;
    singleHoldUntil(single, until_ms, single->lease_ms);
    alarmSet(&single->beat, beatOf(single) - (clockNow() - single->sent_ms));
    if (single->stage == SINGLE_CONFIRMING) {
        beginToHold(single);
    }
}

static void onRenewed(void *arg, redisReply *reply) {
    struct single *single = arg;
    single->is_renewing = false;
    single->replied_ms = clockNow();
    if (reply->type == REDIS_REPLY_INTEGER) {
        onGoodRenewal(single);
    } else if (replyIsError(reply, "NOTHELD")) {
        if (single->stage == SINGLE_CONFIRMING) {
            singleAskAgain(single); /* the lease expired before the reply arrived */
        } else {
            beGone(single, "its lease has expired");
        }
    } else if (serverGoesOn(&single->first, reply)) {
        return;
    } else if (single->stage == SINGLE_CONFIRMING) {
        singleRefuse(single, reply->str);
    } else {
        singleNote(single, reply->str);
        alarmSet(&single->beat, beatOf(single) / 4);
    }
}

void singleRenew(struct single *single) {
    struct words words;
    requestRenew(&words, single->wish);
    single->is_renewing = true;
    single->sent_ms = clockNow();
    /* Until the lock is held, `beat` limits the wait for the server. */
    int64_t limit_ms = single->stage == SINGLE_CONFIRMING ? 0 : beatOf(single);
    singleAsk(single, &single->first, &words, limit_ms, onRenewed);
}

/* Whether a renewal may still succeed after this process was stalled. During a stall, replies that
 * have arrived are not read, and renewals that are due are not sent. The reply to a renewal that is
 * sent now may still arrive in time. With a session it may arrive even later: as long as it is
 * connected, the server renews the lease. */
static bool maySoonBeRenewed(struct single *single) {
    int64_t now_ms = clockNow();
    int64_t patience_ms = single->notice_ms / 2;
    bool is_bound = single->wish->lease_ms == 0 && !single->is_cut;
    bool stood_still = now_ms >= single->until_ms - single->notice_ms + LATE_MS;
    if (!stood_still || !serverIsOpen(&single->first) ||
        (!is_bound && now_ms >= single->until_ms - patience_ms)) {
        return false;
    }
    if (!single->is_renewing) {
        singleRenew(single);
    }
    int64_t left_ms = single->sent_ms + patience_ms - now_ms;
    if (left_ms > 0) {
        alarmSet(&single->clock, left_ms);
    }
    return left_ms > 0;
}

void singleLeaseEnds(struct single *single) {
    if (!maySoonBeRenewed(single)) {
        char *why = memoryPrint("it could not be renewed: %s",
                                single->trouble ? single->trouble : "no reply in time");
        singleLose(single, why, single->until_ms);
        free(why);
    }
}

/* Reads the lease of a session: how long the server keeps it without a renewal. */
static void onInfo(void *arg, redisReply *reply) {
    struct single *single = arg;
    const redisReply *holders = replyField(reply, "holders");
    size_t count = holders ? holders->elements : 0;
    for (size_t i = 0; i < count; i++) {
        const redisReply *owner = replyField(holders->element[i], "owner");
        if (owner && owner->str && strcmp(owner->str, single->wish->owner) == 0) {
            single->lease_ms = replyNumber(holders->element[i], "pttl", 0);
        }
    }
    if (single->lease_ms <= 0) {
        single->lease_ms = LEASE_IF_UNKNOWN_MS;
    }
    singleRenew(single);
}

void singleConfirm(struct single *single) {
    single->stage = SINGLE_CONFIRMING;
    alarmStop(&single->clock);
    alarmSet(&single->beat, singleLookMs(single));
    single->lease_ms = single->wish->lease_ms;
    if (single->lease_ms > 0) {
        singleRenew(single);
        return;
    }
    struct words words;
    requestInfo(&words, single->wish);
    singleAsk(single, &single->first, &words, 0, onInfo);
}
