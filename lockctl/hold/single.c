/* See single.h.
 *
 * There are two connections. The first one acquires, renews and releases the lock; while it waits,
 * nothing else can be sent on it. The second one is notified of a loss, and shows that the server
 * is alive while the first one waits.
 *
 * The lock is certainly held until `until_ms`. This counts from when the last request that started
 * a lease was sent, not from its reply, which may have arrived late. So a grant is renewed once
 * before it counts. A hold that is bound to the connection has a lease too, `lock.default-lease`.
 * When the connection is lost, the hold must be bound to another one within a second,
 * `lock.session-grace`.
 */
#include "hold/single.h"

#include <stdlib.h>
#include <string.h>

#include "base/alarm.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/memory.h"
#include "hold/lease.h"
#include "hold/requests.h"
#include "net/replies.h"
#include "net/server.h"

/* More than the delay of a timer on a busy machine. */
#define GAP_MS 1000
#define GRACE_OF_SESSIONS_MS 1000
#define PAUSE_MS 200
#define ENDING_MS 1000
#define LEASE_IF_UNKNOWN_MS 3000
#define LONGEST_BEAT_MS 10000
/* An alarm that is this late means that this process did not run. */
#define LATE_MS 200

enum singleStage {
    SINGLE_ASKING,     /* requesting the lock, and waiting */
    SINGLE_CONFIRMING, /* the lock is granted, and is renewed for the first time */
    SINGLE_HOLDING,
    SINGLE_GIVING_UP, /* ending the wait, or a grant whose reply is pending */
    SINGLE_RELEASING,
    SINGLE_OVER
};

struct single {
    struct holder holder;
    const struct wish *wish;
    const struct holderWatch *watch;
    void *arg;
    struct server first, second;
    enum singleStage stage;
    struct alarm beat;   /* the next renewal, or check that the server is alive */
    struct alarm clock;  /* the deadline of the wait, the lease or the release */
    int64_t grace_ms;    /* how long before the end of the lease `lost` is called, at most */
    int64_t wait_end_ms; /* -1: never */
    int64_t begun_ms;
    int64_t replied_ms;  /* when the server last replied */
    int64_t looked_ms;   /* when singleIsSilent was last called */
    int64_t acquired_ms; /* when the grant was known */
    int64_t sent_ms;     /* when the last renewal was sent */
    int64_t lease_ms;    /* the lease that it requested */
    int64_t until_ms;
    int64_t notice_ms; /* how long before `until_ms` `lost` is called */
    bool is_renewing;
    bool is_cut; /* the session's connection was lost, and no other is bound yet */
    bool is_lost;
    bool is_gone; /* lost, and the server has reported it */
    bool was_held;
    bool is_acquire_sent;
    bool is_kept;          /* it ends by its lease, if `at_least_ms` has not passed */
    bool is_release_sent;  /* and perhaps executed, even if the reply was lost */
    bool is_release_again; /* the release was sent a second time */
    char *token;
    char *trouble; /* the last error, for messages */
    char *refusal; /* why the grant is released and not used, or NULL */
};

/* Sends a request on one of the two connections, as serverAsk does; `answer` gets `single`. */
static void singleAsk(struct single *single, struct server *server, const struct words *words,
                      int64_t limit_ms, linkAnswer *answer) {
    serverAsk(server, words, limit_ms, answer, single);
}

/* Stores an error for the message, if no later error replaces it. */
static void singleNote(struct single *single, const char *trouble) {
    char *copy = memoryPrint("%s", trouble);
    free(single->trouble);
    single->trouble = copy;
}

/* Returns the interval in which it checks that the server is alive while it waits. */
static int64_t singleLookMs(const struct single *single) {
    return single->wish->silence_ms / 4;
}

/* Whether the server has not replied for too long. Time in which this process did not run, because
 * it was stopped or the machine was suspended, does not count. */
static bool singleIsSilent(struct single *single) {
    int64_t now_ms = clockNow();
    int64_t gap_ms = now_ms - single->looked_ms;
    if (gap_ms > 2 * singleLookMs(single) + GAP_MS) {
        single->replied_ms += gap_ms;
    }
    single->looked_ms = now_ms;
    return now_ms - single->replied_ms >= single->wish->silence_ms;
}

/* ---- endings ---- */

static void singleClose(struct single *single) {
    single->stage = SINGLE_OVER;
    serverClose(&single->first);
    serverClose(&single->second);
    alarmStop(&single->beat);
    alarmStop(&single->clock);
}

/* Ends with `not_had`; singleEnded: or with `over`, unless the grant had to be refused. */
static void singleNotHad(struct single *single, int status, const char *why) {
    singleClose(single);
    single->watch->not_had(single->arg, status, why);
}

static void singleEnded(struct single *single) {
    if (single->refusal) {
        singleNotHad(single, FAILURE_UNAVAILABLE, single->refusal);
        return;
    }
    singleClose(single);
    single->watch->over(single->arg, single->was_held && !single->is_lost);
}

/* ---- giving up: ending the wait, or releasing a grant that is not used ---- */

static void onGivenUp(void *arg, redisReply *reply) {
    (void)reply; /* neither a waiter nor a hold is left */
    singleEnded(arg);
}

static void onCancelled(void *arg, redisReply *reply) {
    (void)arg;
    (void)reply; /* only the next reply counts */
}

/* Uses the second connection, because the first one may be blocked. */
static void singleGiveUp(struct single *single) {
    struct words words;
    requestCancel(&words, single->wish);
    singleAsk(single, &single->second, &words, 0, onCancelled);
    requestRelease(&words, single->wish, 0);
    singleAsk(single, &single->second, &words, 0, onGivenUp);
}

static void singleBeginToGiveUp(struct single *single) {
    bool may_be_granted = single->is_acquire_sent || single->stage == SINGLE_CONFIRMING;
    single->stage = SINGLE_GIVING_UP;
    if (!may_be_granted || !single->wish->is_own_owner) {
        /* Closing the connection ends the wait, and the server takes back a grant to it that is
         * pending. Holds of other clients under the same name must stay. */
        alarmSet(&single->clock, 0);
        return;
    }
    alarmSet(&single->clock, ENDING_MS);
    if (serverIsOpen(&single->second)) {
        singleGiveUp(single);
    } else {
        serverOpen(&single->second);
    }
}

/* The grant cannot be kept: releases it, and ends with the error `why`. */
static void singleRefuse(struct single *single, const char *why) {
    struct words words;
    single->refusal = memoryPrint("%s", why);
    single->stage = SINGLE_GIVING_UP;
    alarmStop(&single->beat);
    alarmSet(&single->clock, ENDING_MS);
    requestRelease(&words, single->wish, 0);
    singleAsk(single, &single->first, &words, 0, onGivenUp);
}

/* Ends because the server does not reply. */
static void singleUnavailable(struct single *single) {
    char *why = memoryPrint("%s", single->trouble ? single->trouble : "no reply in time");
    if (single->stage == SINGLE_CONFIRMING) {
        single->refusal = why; /* the grant must be released */
        singleBeginToGiveUp(single);
        return;
    }
    singleNotHad(single, FAILURE_UNAVAILABLE, why);
    free(why);
}

/* ---- losing the lock ---- */

/* Calls `lost`, once; does nothing if the lock is not held. */
static void singleLose(struct single *single, const char *why, int64_t until_ms) {
    if (single->stage == SINGLE_HOLDING && !single->is_lost) {
        single->is_lost = true;
        alarmStop(&single->beat);
        alarmStop(&single->clock);
        single->watch->lost(single->arg, why, until_ms);
    }
}

/* The server has reported the loss. */
static void beGone(struct single *single, const char *why) {
    single->is_gone = true;
    singleLose(single, why, clockNow());
}

static void singleWatchLoss(struct single *single);

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

/* Starts to watch for a loss on the second connection. */
static void singleWatchLoss(struct single *single) {
    struct words words;
    requestWatch(&words, single->wish);
    singleAsk(single, &single->second, &words, 0, onWatched);
}

/* ---- keeping it: confirming the grant, and renewals ---- */

static void singleRenew(struct single *single);

static int64_t beatOf(const struct single *single) {
    int64_t third = single->lease_ms / 3;
    return third < LONGEST_BEAT_MS ? third : LONGEST_BEAT_MS;
}

/* The lock is held until `until_ms` at the latest; `span_ms` is the length of the period that ends
 * then. */
static void singleHoldUntil(struct single *single, int64_t until_ms, int64_t span_ms) {
    single->until_ms = until_ms;
    single->notice_ms = leaseNotice(span_ms, single->grace_ms);
    alarmSet(&single->clock, until_ms - single->notice_ms - clockNow());
}

static void singleBeginToHold(struct single *single) {
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
        singleBeginToHold(single);
    }
}

/* Requests the lock again after a pause. */
static void singleAskAgain(struct single *single) {
    single->stage = SINGLE_ASKING;
    single->is_acquire_sent = false;
    alarmSet(&single->beat, PAUSE_MS);
}

static void singleOnRenewed(void *arg, redisReply *reply) {
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

static void singleRenew(struct single *single) {
    struct words words;
    if (single->wish->lease_ms > 0) {
        single->lease_ms = leaseWanted(single->wish, single->acquired_ms);
    }
    requestRenew(&words, single->wish, single->wish->lease_ms > 0 ? single->lease_ms : 0);
    single->is_renewing = true;
    single->sent_ms = clockNow();
    /* Until the lock is held, `beat` limits the wait for the server. */
    int64_t limit_ms = single->stage == SINGLE_CONFIRMING ? 0 : beatOf(single);
    singleAsk(single, &single->first, &words, limit_ms, singleOnRenewed);
}

/* Whether a renewal may still succeed after this process was stalled. During a stall, replies that
 * have arrived are not read, and renewals that are due are not sent. The reply to a renewal that is
 * sent now may still arrive in time. With a session it may arrive even later: as long as it is
 * connected, the server renews the lease. */
static bool singleMaySoonBeRenewed(struct single *single) {
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

/* The lease is near its end. */
static void singleLeaseEnds(struct single *single) {
    if (!singleMaySoonBeRenewed(single)) {
        char *why = memoryPrint("it could not be renewed: %s",
                                single->trouble ? single->trouble : "no reply in time");
        singleLose(single, why, single->until_ms);
        free(why);
    }
}

/* Reads the lease of a session: how long the server keeps it without a renewal. */
static void singleOnInfo(void *arg, redisReply *reply) {
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

static void singleConfirm(struct single *single) {
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
    singleAsk(single, &single->first, &words, 0, singleOnInfo);
}

/* ---- requesting it ---- */

static int64_t waitLeft(const struct single *single) {
    int64_t left = single->wait_end_ms - clockNow();
    return single->wait_end_ms < 0 ? -1 : left > 0 ? left : 0;
}

static void takeToken(struct single *single, const redisReply *reply) {
    free(single->token);
    single->token =
        requestIsFenced(single->wish) ? memoryPrint("%lld", (long long)reply->integer) : NULL;
}

/* Whether to follow a redirection, to another node or to the next master. With --wait 0 it does so
 * too, for a limited time. */
static bool mayGoOn(const struct single *single) {
    return waitLeft(single) != 0 || clockNow() - single->begun_ms < single->wish->silence_ms;
}

static void singleOnAcquired(void *arg, redisReply *reply) {
    struct single *single = arg;
    single->is_acquire_sent = false;
    single->replied_ms = clockNow();
    if (single->stage != SINGLE_ASKING) {
        return; /* it has given up, and the grant is released too */
    }
    if (reply->type == REDIS_REPLY_INTEGER) {
        single->acquired_ms = clockNow();
        takeToken(single, reply);
        singleConfirm(single);
    } else if (reply->type == REDIS_REPLY_NIL) {
        singleNotHad(single, FAILURE_NOT_HAD,
                     waitLeft(single) == 0 ? "another client holds the lock"
                                           : "the server ended the wait");
    } else if (replyIsError(reply, "NOREPLICAS") && waitLeft(single) != 0) {
        singleNote(single, reply->str);
        singleAskAgain(single);
    } else if (!mayGoOn(single) || !serverGoesOn(&single->first, reply)) {
        bool is_deadlock = replyIsError(reply, "DEADLOCK");
        singleNotHad(single, is_deadlock ? FAILURE_NOT_HAD : FAILURE_UNAVAILABLE, reply->str);
    }
}

/* Requests the lock on the first connection, which is open. */
static void singleAcquire(struct single *single) {
    struct words words;
    int64_t left_ms = waitLeft(single);
    requestAcquire(&words, single->wish, leaseWanted(single->wish, clockNow()), left_ms);
    single->is_acquire_sent = true;
    alarmSet(&single->beat, singleLookMs(single));
    /* The server ends the wait. If the reply is later than that by `silence_ms`, it is not awaited
     * any longer. */
    if (left_ms >= 0) {
        alarmSet(&single->clock, left_ms + single->wish->silence_ms);
    }
    singleAsk(single, &single->first, &words, 0, singleOnAcquired);
}

static void onPong(void *arg, redisReply *reply) {
    struct single *single = arg;
    (void)reply; /* an error also shows that the server is alive */
    single->replied_ms = clockNow();
}

/* Sends PING on the second connection if it is open, otherwise opens it. */
static void singlePing(struct single *single) {
    if (serverIsOpen(&single->second) && !single->second.link.is_waiting) {
        struct words words = {0};
        wordsAdd(&words, "PING");
        /* Half of the time, so that there is time to look for another master. */
        singleAsk(single, &single->second, &words, single->wish->silence_ms / 2, onPong);
    } else if (!single->second.is_wanted) {
        serverOpen(&single->second);
    }
}

/* Checks whether the server is alive. */
static void singleBeatWhileAsking(struct single *single) {
    if (singleIsSilent(single)) {
        singleUnavailable(single);
        return;
    }
    if (serverIsOpen(&single->first) && !single->is_acquire_sent) {
        singleAcquire(single);
        return;
    }
    if (single->is_acquire_sent) {
        singlePing(single);
    }
    alarmSet(&single->beat, singleLookMs(single));
}

/* ---- releasing ---- */

static void singleOnReleased(void *arg, redisReply *reply) {
    struct single *single = arg;
    if (serverGoesOn(&single->first, reply)) {
        single->is_release_sent = false; /* it was not executed */
        return;
    }
    if (replyIsError(reply, "NOTHELD")) {
        /* Not a loss if the first release was executed and only its reply was lost. */
        single->is_lost = single->is_lost || !single->is_release_again;
    } else if (reply->type == REDIS_REPLY_ERROR) {
        failureSay("the lock was not released: %s", reply->str);
    }
    singleEnded(single);
}

static void release(struct single *single) {
    /* Sent again only if no other client uses this owner name: with several holds, it might release
     * another hold. */
    single->is_release_again = single->is_release_sent;
    if (single->is_release_sent && !single->wish->is_own_owner) {
        singleEnded(single);
        return;
    }
    struct words words;
    int64_t keep_ms = single->is_kept ? leaseLeft(single->wish, single->acquired_ms) : 0;
    requestRelease(&words, single->wish, keep_ms);
    single->is_release_sent = true;
    singleAsk(single, &single->first, &words, 0, singleOnReleased);
}

/* Whether there may be a hold to release. There is none if the server has taken it away. If it was
 * lost by the clock, a hold under the same name may be that of another client. */
static bool mayHold(const struct single *single) {
    return !single->is_lost || (single->wish->is_own_owner && !single->is_gone);
}

static void endSingle(struct holder *holder, enum holderEnd how) {
    struct single *single = (struct single *)holder;
    single->is_kept = how == HOLDER_KEEP;
    alarmStop(&single->beat);
    if (single->stage == SINGLE_ASKING || single->stage == SINGLE_CONFIRMING) {
        singleBeginToGiveUp(single);
        return;
    }
    single->stage = SINGLE_RELEASING;
    serverClose(&single->second);
    alarmSet(&single->clock, mayHold(single) ? ENDING_MS : 0);
    if (mayHold(single) && serverIsOpen(&single->first)) {
        release(single);
    }
}

static void beatWhileConfirming(struct single *single) {
    if (singleIsSilent(single)) {
        singleUnavailable(single);
    } else {
        alarmSet(&single->beat, singleLookMs(single));
    }
}

static void onBeat(void *arg) {
    struct single *single = arg;
    if (single->stage == SINGLE_ASKING) {
        singleBeatWhileAsking(single);
    } else if (single->stage == SINGLE_CONFIRMING) {
        beatWhileConfirming(single);
    } else if (single->stage == SINGLE_HOLDING && serverIsOpen(&single->first) &&
               !single->is_renewing) {
        singleRenew(single);
    }
}

/* ---- the clock ---- */

static void singleOnClock(void *arg) {
    struct single *single = arg;
    switch (single->stage) {
    case SINGLE_ASKING:
        if (singleIsSilent(single)) {
            singleUnavailable(single);
        } else {
            singleNotHad(single, FAILURE_NOT_HAD, "another client holds the lock");
        }
        break;
    case SINGLE_CONFIRMING:
        singleUnavailable(single);
        break;
    case SINGLE_HOLDING:
        singleLeaseEnds(single);
        break;
    case SINGLE_RELEASING:
        if (!single->is_lost && leaseLeft(single->wish, single->acquired_ms) == 0) {
            failureSay("the lock was not released: %s; it expires with its lease",
                       single->trouble ? single->trouble : "no reply in time");
        }
        singleEnded(single);
        break;
    case SINGLE_GIVING_UP:
        singleEnded(single);
        break;
    case SINGLE_OVER:
        break;
    }
}

/* ---- the first connection ---- */

static void onFirstOpened(void *arg) {
    struct single *single = arg;
    switch (single->stage) {
    case SINGLE_ASKING:
        singleAcquire(single);
        break;
    case SINGLE_CONFIRMING:
        singleConfirm(single);
        break;
    case SINGLE_HOLDING:
        serverFollow(&single->second, &single->first);
        if (!single->is_lost) {
            singleRenew(single);
        }
        break;
    case SINGLE_RELEASING:
        if (mayHold(single)) {
            release(single);
        }
        break;
    case SINGLE_GIVING_UP:
    case SINGLE_OVER:
        break;
    }
}

static void onFirstFailed(void *arg, const char *why, bool is_final) {
    struct single *single = arg;
    singleNote(single, why);
    single->is_renewing = single->is_acquire_sent = false;
    if (single->stage == SINGLE_ASKING || single->stage == SINGLE_CONFIRMING) {
        if (is_final || singleIsSilent(single)) {
            singleUnavailable(single);
        } else {
            alarmSet(&single->beat, singleLookMs(single));
        }
    } else if (single->stage == SINGLE_HOLDING && single->wish->lease_ms == 0) {
        /* The server may release the lock this long after it has noticed, which may have been a
         * little earlier. */
        int64_t end_ms = clockNow() + GRACE_OF_SESSIONS_MS - GRACE_OF_SESSIONS_MS / 10;
        single->is_cut = true;
        if (end_ms < single->until_ms) {
            singleHoldUntil(single, end_ms, GRACE_OF_SESSIONS_MS);
        }
    }
}

/* ---- the second connection ---- */

static void onSecondOpened(void *arg) {
    struct single *single = arg;
    if (single->stage == SINGLE_ASKING) {
        serverFollow(&single->first, &single->second);
        singlePing(single);
    } else if (single->stage == SINGLE_HOLDING) {
        singleWatchLoss(single);
    } else if (single->stage == SINGLE_GIVING_UP) {
        singleGiveUp(single);
    }
}

static void onSecondFailed(void *arg, const char *why, bool is_final) {
    struct single *single = arg;
    (void)is_final;
    singleNote(single, why);
}

static const struct serverWatch first_watch = {onFirstOpened, onFirstFailed};
static const struct serverWatch second_watch = {onSecondOpened, onSecondFailed};

/* ---- creation ---- */

static void beginSingle(struct holder *holder) {
    struct single *single = (struct single *)holder;
    int64_t wait_ms = single->wish->wait_ms;
    single->begun_ms = single->replied_ms = single->looked_ms = clockNow();
    single->wait_end_ms = wait_ms < 0 ? -1 : clockNow() + wait_ms;
    alarmSet(&single->beat, singleLookMs(single));
    serverOpen(&single->first);
}

static void freeSingle(struct holder *holder) {
    struct single *single = (struct single *)holder;
    serverFree(&single->first);
    serverFree(&single->second);
    alarmFree(&single->beat);
    alarmFree(&single->clock);
    free(single->token);
    free(single->trouble);
    free(single->refusal);
    free(single);
}

struct holder *singleNew(struct event_base *base, const struct url *url, const struct wish *wish,
                         int64_t grace_ms, const struct holderWatch *watch, void *arg, char **why) {
    struct single *single = memoryNew(sizeof(*single));
    *single = (struct single){.holder = {beginSingle, endSingle, freeSingle},
                              .wish = wish,
                              .watch = watch,
                              .arg = arg,
                              .grace_ms = grace_ms};
    alarmInit(&single->beat, base, onBeat, single);
    alarmInit(&single->clock, base, singleOnClock, single);
    int64_t limit_ms = wish->silence_ms;
    *why = serverInit(&single->first, base, url, limit_ms, &first_watch, single);
    char *again = serverInit(&single->second, base, url, limit_ms, &second_watch, single);
    free(again); /* the same error */
    if (*why) {
        freeSingle(&single->holder);
        return NULL;
    }
    return &single->holder;
}
