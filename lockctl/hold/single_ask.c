/* See single_parts.h. Requests the lock, waits, and gives up. */
#include "hold/single_parts.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/memory.h"
#include "hold/requests.h"
#include "net/replies.h"

#define PAUSE_MS 200
#define ENDING_MS 1000

/* ---- requesting ---- */

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

static void onAcquired(void *arg, redisReply *reply) {
    struct single *single = arg;
    single->is_acquire_sent = false;
    single->replied_ms = clockNow();
    if (single->stage != SINGLE_ASKING) {
        return; /* it has given up, and the grant is released too */
    }
    if (reply->type == REDIS_REPLY_INTEGER) {
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

void singleAcquire(struct single *single) {
    struct words words;
    int64_t left_ms = waitLeft(single);
    requestAcquire(&words, single->wish, left_ms);
    single->is_acquire_sent = true;
    alarmSet(&single->beat, singleLookMs(single));
    /* The server ends the wait. If the reply is later than that by `silence_ms`, it is not awaited
     * any longer. */
    if (left_ms >= 0) {
        alarmSet(&single->clock, left_ms + single->wish->silence_ms);
    }
    singleAsk(single, &single->first, &words, 0, onAcquired);
}

void singleAskAgain(struct single *single) {
    single->stage = SINGLE_ASKING;
    single->is_acquire_sent = false;
    alarmSet(&single->beat, PAUSE_MS);
}

static void onPong(void *arg, redisReply *reply) {
    struct single *single = arg;
    (void)reply; /* an error also shows that the server is alive */
    single->replied_ms = clockNow();
}

void singlePing(struct single *single) {
    if (serverIsOpen(&single->second) && !single->second.link.is_waiting) {
        struct words words = {0};
        wordsAdd(&words, "PING");
        /* Half of the time, so that there is time to look for another master. */
        singleAsk(single, &single->second, &words, single->wish->silence_ms / 2, onPong);
    } else if (!single->second.is_wanted) {
        serverOpen(&single->second);
    }
}

void singleBeatWhileAsking(struct single *single) {
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

/* ---- giving up ---- */

static void onGivenUp(void *arg, redisReply *reply) {
    (void)reply; /* neither a waiter nor a hold is left */
    singleEnded(arg);
}

static void onCancelled(void *arg, redisReply *reply) {
    (void)arg;
    (void)reply; /* only the next reply counts */
}

/* Uses the second connection, because the first one may be blocked. */
void singleGiveUp(struct single *single) {
    struct words words;
    requestCancel(&words, single->wish);
    singleAsk(single, &single->second, &words, 0, onCancelled);
    requestRelease(&words, single->wish);
    singleAsk(single, &single->second, &words, 0, onGivenUp);
}

void singleRefuse(struct single *single, const char *why) {
    struct words words;
    single->refusal = memoryPrint("%s", why);
    single->stage = SINGLE_GIVING_UP;
    alarmStop(&single->beat);
    alarmSet(&single->clock, ENDING_MS);
    requestRelease(&words, single->wish);
    singleAsk(single, &single->first, &words, 0, onGivenUp);
}

void singleBeginToGiveUp(struct single *single) {
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
