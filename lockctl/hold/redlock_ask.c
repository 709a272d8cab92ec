/* See redlock_parts.h. Requests the lock, in rounds. */
#include "hold/redlock_parts.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/memory.h"
#include "hold/lease.h"
#include "hold/requests.h"

/* The pause before the next round, and the random addition to it, which separates two clients that
 * hinder each other. */
#define PAUSE_MS 20
#define PAUSE_MORE_MS 180
/* More than the delay of a timer on a busy machine. */
#define GAP_MS 1000

static bool waitHasEnded(const struct redlock *redlock) {
    return redlock->wait_end_ms >= 0 && clockNow() >= redlock->wait_end_ms;
}

/* The round failed: releases all grants, and pauses before the next round or the end. */
static void endBadRound(struct redlock *redlock) {
    redlockReleaseAll(redlock);
    size_t answered = redlock->count - redlockVotes(redlock, VOTE_NONE);
    redlock->is_answered = answered >= redlockQuorum(redlock);
    if (redlock->is_answered) {
        redlock->replied_ms = clockNow();
    }
    redlock->stage = REDLOCK_PAUSING;
    alarmSet(&redlock->step, PAUSE_MS + (waitHasEnded(redlock) ? 0 : clockRandom(PAUSE_MORE_MS)));
}

static void beginToHold(struct redlock *redlock, int64_t until_ms) {
    for (size_t i = 0; i < redlock->count; i++) {
        redlock->members[i].holds = redlock->members[i].vote == VOTE_YES;
    }
    redlock->stage = REDLOCK_HOLDING;
    redlock->was_held = true;
    redlockHold(redlock, until_ms);
    alarmSet(&redlock->step, redlock->wish->lease_ms / 3 - (clockNow() - redlock->asked_ms));
    char *token = requestIsFenced(redlock->wish) ? memoryPrint("%lld", redlock->token) : NULL;
    redlock->watch->held(redlock->arg, token);
    free(token);
}

/* Ends the round as soon as the result is certain, without waiting for the other replies. */
static void countAsking(struct redlock *redlock, bool is_last) {
    size_t yes = redlockVotes(redlock, VOTE_YES);
    size_t open = is_last ? 0 : redlockVotes(redlock, VOTE_NONE);
    int64_t until_ms = leaseEnd(redlock->asked_ms, redlock->wish->lease_ms);
    if (yes >= redlockQuorum(redlock) && clockNow() < until_ms) {
        beginToHold(redlock, until_ms);
    } else if (yes >= redlockQuorum(redlock) || yes + open < redlockQuorum(redlock)) {
        endBadRound(redlock);
    }
}

static void onAcquired(void *arg, redisReply *reply) {
    struct member *member = arg;
    struct redlock *redlock = member->redlock;
    member->unanswered--;
    if (member->asked_round != redlock->round || redlock->stage != REDLOCK_ASKING) {
        /* A grant beyond the majority; or one of a failed round, whose release is already sent. */
        member->holds = member->asked_round == redlock->round &&
                        redlock->stage == REDLOCK_HOLDING && reply->type == REDIS_REPLY_INTEGER;
        return;
    }
    if (reply->type == REDIS_REPLY_INTEGER) {
        member->vote = VOTE_YES;
        redlock->token = reply->integer > redlock->token ? reply->integer : redlock->token;
    } else if (reply->type != REDIS_REPLY_ERROR || serverGoesOn(&member->server, reply)) {
        member->vote = VOTE_NO;
    } else {
        member->vote = VOTE_REFUSED;
        free(redlock->refusal);
        redlock->refusal = memoryPrint("%s", reply->str);
    }
    countAsking(redlock, false);
}

void redlockAcquireAt(struct member *member, linkAnswer *answer) {
    struct words words;
    requestAcquire(&words, member->redlock->wish, 0);
    member->may_hold = true;
    member->asked_round = member->redlock->round;
    redlockAsk(member, &words, answer);
}

void redlockBeginRound(struct redlock *redlock) {
    redlock->round++;
    redlock->stage = REDLOCK_ASKING;
    redlock->token = 0;
    redlock->asked_ms = clockNow();
    alarmSet(&redlock->step, redlock->limit_ms);
    for (size_t i = 0; i < redlock->count; i++) {
        struct member *member = &redlock->members[i];
        member->vote = VOTE_NONE;
        /* A server that has not replied to the last round would not reply to this one. */
        if (redlockIsQuiet(member) && serverIsOpen(&member->server)) {
            redlockAcquireAt(member, onAcquired);
        }
    }
}

void redlockEndRound(struct redlock *redlock) {
    countAsking(redlock, true);
}

/* ---- the time between rounds ---- */

/* Time in which this process did not run, because it was stopped or the machine was suspended, does
 * not count as silence of the servers. */
static void forgiveStall(struct redlock *redlock) {
    int64_t expected_ms = redlock->limit_ms + PAUSE_MS + PAUSE_MORE_MS;
    int64_t late_ms = clockNow() - redlock->asked_ms - expected_ms;
    if (late_ms > GAP_MS) {
        redlock->replied_ms += late_ms;
    }
}

void redlockEndPause(struct redlock *redlock) {
    forgiveStall(redlock);
    if (redlock->count - redlockVotes(redlock, VOTE_REFUSED) < redlockQuorum(redlock)) {
        redlockNotHad(redlock, FAILURE_UNAVAILABLE, redlock->refusal);
        return;
    }
    if (clockNow() - redlock->replied_ms >= redlock->wish->silence_ms ||
        (waitHasEnded(redlock) && !redlock->is_answered)) {
        redlockNotHad(redlock, FAILURE_UNAVAILABLE, "no majority of the servers replied");
    } else if (waitHasEnded(redlock)) {
        redlockNotHad(redlock, FAILURE_NOT_HAD, "another client holds the lock");
    } else {
        redlockBeginRound(redlock);
    }
}
