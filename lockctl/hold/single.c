/* See single.h. */
#include "hold/single.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/memory.h"
#include "hold/requests.h"
#include "hold/single_parts.h"
#include "net/replies.h"

/* More than the delay of a timer on a busy machine. */
#define GAP_MS 1000
#define GRACE_OF_SESSIONS_MS 1000
#define ENDING_MS 1000

void singleAsk(struct single *single, struct server *server, const struct words *words,
               int64_t limit_ms, linkAnswer *answer) {
    serverAsk(server, words, limit_ms, answer, single);
}

void singleNote(struct single *single, const char *trouble) {
    char *copy = memoryPrint("%s", trouble);
    free(single->trouble);
    single->trouble = copy;
}

/* ---- endings ---- */

static void close(struct single *single) {
    single->stage = SINGLE_OVER;
    serverClose(&single->first);
    serverClose(&single->second);
    alarmStop(&single->beat);
    alarmStop(&single->clock);
}

void singleNotHad(struct single *single, int status, const char *why) {
    close(single);
    single->watch->not_had(single->arg, status, why);
}

void singleEnded(struct single *single) {
    if (single->refusal) {
        singleNotHad(single, FAILURE_UNAVAILABLE, single->refusal);
        return;
    }
    close(single);
    single->watch->over(single->arg, single->was_held && !single->is_lost);
}

void singleUnavailable(struct single *single) {
    char *why = memoryPrint("%s", single->trouble ? single->trouble : "no reply in time");
    if (single->stage == SINGLE_CONFIRMING) {
        single->refusal = why; /* the grant must be released */
        singleBeginToGiveUp(single);
        return;
    }
    singleNotHad(single, FAILURE_UNAVAILABLE, why);
    free(why);
}

int64_t singleLookMs(const struct single *single) {
    return single->wish->silence_ms / 4;
}

bool singleIsSilent(struct single *single) {
    int64_t now_ms = clockNow();
    int64_t gap_ms = now_ms - single->looked_ms;
    if (gap_ms > 2 * singleLookMs(single) + GAP_MS) {
        single->replied_ms += gap_ms;
    }
    single->looked_ms = now_ms;
    return now_ms - single->replied_ms >= single->wish->silence_ms;
}

/* ---- releasing ---- */

static void onReleased(void *arg, redisReply *reply) {
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
    requestRelease(&words, single->wish);
    single->is_release_sent = true;
    singleAsk(single, &single->first, &words, 0, onReleased);
}

/* Whether there may be a hold to release. There is none if the server has taken it away. If it was
 * lost by the clock, a hold under the same name may be that of another client. */
static bool mayHold(const struct single *single) {
    return !single->is_lost || (single->wish->is_own_owner && !single->is_gone);
}

static void endSingle(struct holder *holder) {
    struct single *single = (struct single *)holder;
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

static void onClock(void *arg) {
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
        if (!single->is_lost) {
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
    alarmInit(&single->clock, base, onClock, single);
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
