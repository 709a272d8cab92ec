/* See redlock_parts.h. Renews the lock, in rounds, and detects its loss. */
#include "hold/redlock_parts.h"

#include "base/clock.h"
#include "hold/lease.h"
#include "hold/requests.h"
#include "net/replies.h"

/* An alarm that is this late means that this process did not run. */
#define LATE_MS 200

void redlockHold(struct redlock *redlock, int64_t until_ms) {
    redlock->until_ms = until_ms;
    int64_t notice_ms = leaseNotice(redlock->wish->lease_ms, redlock->grace_ms);
    alarmSet(&redlock->clock, until_ms - notice_ms - clockNow());
}

void redlockLose(struct redlock *redlock, const char *why, int64_t until_ms) {
    if (!redlock->is_lost) {
        redlock->is_lost = true;
        alarmStop(&redlock->step);
        alarmStop(&redlock->clock);
        redlock->watch->lost(redlock->arg, why, until_ms);
    }
}

/* A majority has held the lock without a gap until now. From now on, servers that have granted it
 * again count too. */
static void countAgain(struct redlock *redlock) {
    for (size_t i = 0; i < redlock->count; i++) {
        struct member *member = &redlock->members[i];
        member->holds = member->holds || member->has_again;
        member->has_again = false;
    }
}

static void countRenewals(struct redlock *redlock) {
    size_t yes = 0;
    size_t could = 0;
    for (size_t i = 0; i < redlock->count; i++) {
        const struct member *member = &redlock->members[i];
        yes += member->holds && member->vote == VOTE_YES;
        could += member->holds;
    }
    if (could < redlockQuorum(redlock)) {
        redlockLose(redlock, "it is no longer held at a majority of the servers", clockNow());
    } else if (yes >= redlockQuorum(redlock) && redlock->is_renewing) {
        redlock->is_renewing = false;
        countAgain(redlock);
        redlockHold(redlock, leaseEnd(redlock->asked_ms, redlock->wish->lease_ms));
        alarmSet(&redlock->step, redlock->wish->lease_ms / 3);
    }
}

/* The reply of a server that has lost the lock, and from which it was requested again. */
static void onTakenAgain(void *arg, redisReply *reply) {
    struct member *member = arg;
    member->unanswered--;
    member->has_again = reply->type == REDIS_REPLY_INTEGER;
}

static void onRenewed(void *arg, redisReply *reply) {
    struct member *member = arg;
    struct redlock *redlock = member->redlock;
    member->unanswered--;
    if (redlock->stage != REDLOCK_HOLDING || redlock->is_lost) {
        return;
    }
    if (reply->type == REDIS_REPLY_INTEGER) {
        member->vote = member->asked_round == redlock->round ? VOTE_YES : member->vote;
        member->has_again = !member->holds; /* its grant arrived too late for its round */
    } else if (replyIsError(reply, "NOTHELD")) {
        member->holds = false;
        redlockAcquireAt(member, onTakenAgain);
    } else {
        serverGoesOn(&member->server, reply);
    }
    countRenewals(redlock);
}

void redlockRenewAll(struct redlock *redlock) {
    redlock->round++;
    redlock->is_renewing = true;
    redlock->asked_ms = clockNow();
    for (size_t i = 0; i < redlock->count; i++) {
        struct member *member = &redlock->members[i];
        member->vote = VOTE_NONE;
        if (redlockIsQuiet(member) && serverIsOpen(&member->server)) {
            struct words words;
            requestRenew(&words, redlock->wish);
            member->asked_round = redlock->round;
            redlockAsk(member, &words, onRenewed);
        }
    }
    /* The next attempt, if this round gets no majority. */
    int64_t again_ms = redlock->wish->lease_ms / 10;
    alarmSet(&redlock->step, again_ms > redlock->limit_ms ? again_ms : redlock->limit_ms);
}

/* Whether the round may still get a majority. After a stall of this process, a round has only just
 * started. */
static bool maySoonBeRenewed(struct redlock *redlock) {
    int64_t now_ms = clockNow();
    int64_t patience_ms = leaseNotice(redlock->wish->lease_ms, redlock->grace_ms) / 2;
    int64_t late_ms = now_ms - (redlock->until_ms - 2 * patience_ms);
    if (late_ms < LATE_MS || !redlock->is_renewing || now_ms - redlock->asked_ms >= patience_ms ||
        now_ms >= redlock->until_ms - patience_ms) {
        return false;
    }
    alarmSet(&redlock->clock, redlock->asked_ms + patience_ms - now_ms);
    return true;
}

void redlockLeaseEnds(struct redlock *redlock) {
    if (!maySoonBeRenewed(redlock)) {
        redlockLose(redlock, "no majority of the servers renewed it", redlock->until_ms);
    }
}
