/* See redlock.h.
 *
 * A request is sent to all servers at once, to each on its own connection, which stays open. A
 * reply that arrives too late for its round does no harm: the server executes the next request on
 * the connection after the late one, so a release that follows also undoes an unconfirmed grant.
 *
 * On a new connection the server is first identified: these replies arrive before any grant, even
 * of a slow server that receives a request before it has sent them. Servers that are not
 * independent, or are replicas, are a mistake of the user, which ends the wait; while the lock is
 * held, such a server counts as one that has lost it.
 */
#include "hold/redlock.h"

#include <stdlib.h>
#include <string.h>

#include "base/alarm.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/memory.h"
#include "hold/identity.h"
#include "hold/lease.h"
#include "hold/requests.h"
#include "net/replies.h"
#include "net/server.h"

/* The time for one server to reply. It is short compared with the lease, so that dead servers do
 * not use up the lease. */
#define LIMIT_SHARE 20
#define SHORTEST_LIMIT_MS 20
#define LONGEST_LIMIT_MS 1000
/* The pause before the next round, and the random addition to it, which separates two clients that
 * hinder each other. */
#define PAUSE_MS 20
#define PAUSE_MORE_MS 180
/* More than the delay of a timer on a busy machine. */
#define GAP_MS 1000
/* An alarm that is this late means that this process did not run. */
#define LATE_MS 200

enum redlockStage {
    REDLOCK_STARTING, /* connections are being opened */
    REDLOCK_ASKING,   /* a round of requests is in progress */
    REDLOCK_PAUSING,  /* the round failed */
    REDLOCK_HOLDING,
    REDLOCK_RELEASING,
    REDLOCK_OVER
};

/* The reply of a server in this round. */
enum vote {
    VOTE_NONE,
    VOTE_YES,
    VOTE_NO,     /* another client holds the lock */
    VOTE_LATER,  /* the server cannot grant it now, or another server may: LOADING, MOVED */
    VOTE_REFUSED /* it would refuse it again */
};

struct member {
    struct redlock *redlock;
    struct server server;
    struct identity identity;
    bool is_barred; /* it must not count while the lock is held */
    enum vote vote;
    /* Its last reply, if that was the error of VOTE_LATER or VOTE_REFUSED; or NULL. */
    char *why;
    int unanswered;    /* requests without a reply */
    int64_t silent_ms; /* since when there are such requests */
    /* Rounds that have started since then. In the first one, replies may have arrived that are not
     * read yet. */
    int silent_rounds;
    bool may_hold;        /* the lock was requested, and not released since */
    bool holds;           /* granted without a gap since a successful round */
    bool has_again;       /* granted again after a loss, since the last successful round */
    bool is_tried;        /* the server is identified, or cannot be reached */
    unsigned asked_round; /* the round of the pending request */
};

struct redlock {
    struct holder holder;
    const struct wish *wish;
    const struct holderWatch *watch;
    void *arg;
    enum redlockStage stage;
    struct alarm step;  /* the end of a round, of a pause, the next renewal */
    struct alarm clock; /* the end of the lease */
    int64_t limit_ms, grace_ms;
    int64_t wait_end_ms; /* -1: never */
    int64_t begun_ms;
    int64_t replied_ms;  /* when a majority last replied */
    int64_t asked_ms;    /* when this round started */
    int64_t lease_ms;    /* the lease that it requests */
    int64_t acquired_ms; /* when the successful round started */
    int64_t until_ms;
    unsigned round;
    bool is_renewing; /* a round of renewals is in progress */
    bool is_answered; /* a majority replied in the last round */
    bool is_lost, was_held;
    bool is_kept;  /* it ends by its lease, if `at_least_ms` has not passed */
    char *refusal; /* why it is refused, or NULL */
    int not_had;   /* the status if it ends without the lock, or 0 */
    const char *why_not;
    long long token;
    size_t count;
    struct member members[];
};

/* Returns how many servers are a majority. */
static size_t redlockQuorum(const struct redlock *redlock) {
    return redlock->count / 2 + 1;
}

/* Returns how many servers have this vote in this round. */
static size_t redlockVotes(const struct redlock *redlock, enum vote vote) {
    size_t found = 0;
    for (size_t i = 0; i < redlock->count; i++) {
        found += redlock->members[i].vote == vote;
    }
    return found;
}

/* Returns the name of the server for messages, to be freed by free(). */
static char *memberName(const struct member *member) {
    const struct route *route = &member->server.route;
    return addressName(route->found.host ? &route->found : &route->url->addresses[0]);
}

/* Sends a request to a server that is open. `answer` gets `member`, and must decrement
 * `unanswered`. */
static void redlockAsk(struct member *member, const struct words *words, linkAnswer *answer) {
    if (member->unanswered++ == 0) {
        member->silent_ms = clockNow();
        member->silent_rounds = 0;
    }
    serverAsk(&member->server, words, 0, answer, member);
}

/* The last requests, a release among them, may not have arrived, so the server may hold the lock.
 * If other clients may use the same owner name, no second release is sent: it might release another
 * hold. */
static void forgetUnanswered(struct member *member) {
    if (member->unanswered > 0 && member->redlock->wish->is_own_owner) {
        member->may_hold = true;
    }
    member->unanswered = 0;
}

/* Whether the server has replied to all requests. If it has not for too long, the connection may be
 * dead without having been closed, and a new one is opened. */
static bool redlockIsQuiet(struct member *member) {
    if (member->unanswered > 0 && serverIsOpen(&member->server) && member->silent_rounds++ > 0 &&
        clockNow() - member->silent_ms >= member->redlock->wish->silence_ms) {
        forgetUnanswered(member);
        serverOpen(&member->server);
    }
    return member->unanswered == 0;
}

/* Whether requests can be sent to the server. A server that has not replied to the last round would
 * not reply to this one. */
static bool isReady(struct member *member) {
    return redlockIsQuiet(member) && serverIsOpen(&member->server) && !member->is_barred;
}

/* Requests the lock from one server. */
static void redlockAcquireAt(struct member *member, linkAnswer *answer) {
    struct words words;
    requestAcquire(&words, member->redlock->wish, member->redlock->lease_ms, 0);
    member->may_hold = true;
    member->asked_round = member->redlock->round;
    redlockAsk(member, &words, answer);
}

/* ---- releasing ---- */

static void redlockOver(struct redlock *redlock) {
    redlock->stage = REDLOCK_OVER;
    alarmStop(&redlock->step);
    alarmStop(&redlock->clock);
    for (size_t i = 0; i < redlock->count; i++) {
        serverClose(&redlock->members[i].server);
    }
    if (redlock->not_had) {
        redlock->watch->not_had(redlock->arg, redlock->not_had, redlock->why_not);
    } else {
        redlock->watch->over(redlock->arg, redlock->was_held && !redlock->is_lost);
    }
}

/* Whether all servers that may hold the lock have replied to a release. */
static bool isReleased(const struct redlock *redlock) {
    bool is_released = true;
    for (size_t i = 0; i < redlock->count; i++) {
        const struct member *member = &redlock->members[i];
        is_released = is_released && !member->may_hold && member->unanswered == 0;
    }
    return is_released;
}

static void redlockOnReleased(void *arg, redisReply *reply) {
    struct member *member = arg;
    struct redlock *redlock = member->redlock;
    (void)reply; /* NOTHELD is a success too */
    member->unanswered--;
    if (redlock->stage == REDLOCK_RELEASING && isReleased(redlock)) {
        alarmSet(&redlock->step, 0);
    }
}

/* Releases the lock at all servers that may hold it, including those that have not replied. */
static void redlockReleaseAll(struct redlock *redlock) {
    for (size_t i = 0; i < redlock->count; i++) {
        struct member *member = &redlock->members[i];
        member->holds = false;
        if (member->may_hold && serverIsOpen(&member->server)) {
            struct words words;
            requestRelease(&words, redlock->wish,
                           redlock->is_kept ? leaseLeft(redlock->wish, redlock->acquired_ms) : 0);
            redlockAsk(member, &words, redlockOnReleased);
            member->may_hold = false;
        }
    }
}

static void beginToRelease(struct redlock *redlock) {
    redlock->stage = REDLOCK_RELEASING;
    alarmStop(&redlock->clock);
    redlockReleaseAll(redlock);
    alarmSet(&redlock->step, isReleased(redlock) ? 0 : redlock->limit_ms);
}

/* Ends without the lock, after a release was sent to all servers that may hold it. `why` must stay
 * valid until then. */
static void redlockNotHad(struct redlock *redlock, int status, const char *why) {
    redlock->not_had = status;
    redlock->why_not = why;
    beginToRelease(redlock);
}

/* ---- keeping it: rounds of renewals ---- */

/* A majority has granted the lock, with a lease until `until_ms` at the latest. */
static void redlockHold(struct redlock *redlock, int64_t until_ms) {
    redlock->until_ms = until_ms;
    int64_t notice_ms = leaseNotice(redlock->wish->lease_ms, redlock->grace_ms);
    alarmSet(&redlock->clock, until_ms - notice_ms - clockNow());
}

/* Calls `lost`, once. */
static void redlockLose(struct redlock *redlock, const char *why, int64_t until_ms) {
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
        redlockHold(redlock, leaseEnd(redlock->asked_ms, redlock->lease_ms));
        alarmSet(&redlock->step, redlock->wish->lease_ms / 3);
    }
}

/* The reply of a server that has lost the lock, and from which it was requested again. */
static void onTakenAgain(void *arg, redisReply *reply) {
    struct member *member = arg;
    member->unanswered--;
    member->has_again = reply->type == REDIS_REPLY_INTEGER;
}

static void redlockOnRenewed(void *arg, redisReply *reply) {
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

/* Renews the lock at all servers at once. */
static void redlockRenewAll(struct redlock *redlock) {
    redlock->round++;
    redlock->is_renewing = true;
    redlock->asked_ms = clockNow();
    redlock->lease_ms = leaseWanted(redlock->wish, redlock->acquired_ms);
    for (size_t i = 0; i < redlock->count; i++) {
        struct member *member = &redlock->members[i];
        member->vote = VOTE_NONE;
        if (isReady(member)) {
            struct words words;
            requestRenew(&words, redlock->wish, redlock->lease_ms);
            member->asked_round = redlock->round;
            redlockAsk(member, &words, redlockOnRenewed);
        }
    }
    /* The next attempt, if this round gets no majority. */
    int64_t again_ms = redlock->wish->lease_ms / 10;
    alarmSet(&redlock->step, again_ms > redlock->limit_ms ? again_ms : redlock->limit_ms);
}

/* Whether the round may still get a majority. After a stall of this process, a round has only just
 * started. */
static bool redlockMaySoonBeRenewed(struct redlock *redlock) {
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

/* The lease is near its end. */
static void redlockLeaseEnds(struct redlock *redlock) {
    if (!redlockMaySoonBeRenewed(redlock)) {
        redlockLose(redlock, "no majority of the servers renewed it", redlock->until_ms);
    }
}

/* ---- acquiring it: rounds of requests ---- */

/* Returns how many servers cannot grant the lock, for a reason other than another client. In the
 * round after VOTE_LATER the next connection may not be open yet. */
static size_t unableCount(const struct redlock *redlock) {
    size_t found = 0;
    for (size_t i = 0; i < redlock->count; i++) {
        found += redlock->members[i].why != NULL;
    }
    return found;
}

/* Whether the servers that cannot grant the lock now may still grant it soon. With --wait 0 they
 * are given a limited time, as a single server is. */
static bool mayGoOn(const struct redlock *redlock) {
    size_t refused = redlockVotes(redlock, VOTE_REFUSED);
    size_t no = redlockVotes(redlock, VOTE_NO) + refused;
    return unableCount(redlock) > refused && redlock->count - no >= redlockQuorum(redlock) &&
           clockNow() - redlock->begun_ms < redlock->wish->silence_ms;
}

static bool waitHasEnded(const struct redlock *redlock) {
    return redlock->wait_end_ms >= 0 && clockNow() >= redlock->wait_end_ms && !mayGoOn(redlock);
}

/* The round failed: releases all grants, and pauses before the next round or the end. */
static void endBadRound(struct redlock *redlock) {
    redlockReleaseAll(redlock);
    size_t answered =
        redlock->count - redlockVotes(redlock, VOTE_NONE) - redlockVotes(redlock, VOTE_LATER);
    redlock->is_answered = answered >= redlockQuorum(redlock);
    if (redlock->is_answered) {
        redlock->replied_ms = clockNow();
    }
    redlock->stage = REDLOCK_PAUSING;
    alarmSet(&redlock->step, PAUSE_MS + (waitHasEnded(redlock) ? 0 : clockRandom(PAUSE_MORE_MS)));
}

static void redlockBeginToHold(struct redlock *redlock, int64_t until_ms) {
    for (size_t i = 0; i < redlock->count; i++) {
        redlock->members[i].holds = redlock->members[i].vote == VOTE_YES;
    }
    redlock->stage = REDLOCK_HOLDING;
    redlock->was_held = true;
    redlock->acquired_ms = redlock->asked_ms;
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
    int64_t until_ms = leaseEnd(redlock->asked_ms, redlock->lease_ms);
    if (yes >= redlockQuorum(redlock) && clockNow() < until_ms) {
        redlockBeginToHold(redlock, until_ms);
    } else if (yes >= redlockQuorum(redlock) || yes + open < redlockQuorum(redlock)) {
        endBadRound(redlock);
    }
}

static void redlockOnAcquired(void *arg, redisReply *reply) {
    struct member *member = arg;
    struct redlock *redlock = member->redlock;
    member->unanswered--;
    if (member->asked_round != redlock->round || redlock->stage != REDLOCK_ASKING) {
        /* A grant beyond the majority; or one of a failed round, whose release is already sent. */
        member->holds = member->asked_round == redlock->round &&
                        redlock->stage == REDLOCK_HOLDING && reply->type == REDIS_REPLY_INTEGER;
        return;
    }
    free(member->why);
    member->why = NULL;
    if (reply->type == REDIS_REPLY_INTEGER) {
        member->vote = VOTE_YES;
        redlock->token = reply->integer > redlock->token ? reply->integer : redlock->token;
    } else if (reply->type != REDIS_REPLY_ERROR) {
        member->vote = VOTE_NO;
    } else {
        member->why = memoryPrint("%s", reply->str);
        member->vote = serverGoesOn(&member->server, reply) ? VOTE_LATER : VOTE_REFUSED;
    }
    countAsking(redlock, false);
}

/* Requests the lock from all servers at once. */
static void redlockBeginRound(struct redlock *redlock) {
    redlock->round++;
    redlock->stage = REDLOCK_ASKING;
    redlock->token = 0;
    redlock->asked_ms = clockNow();
    redlock->lease_ms = leaseWanted(redlock->wish, redlock->asked_ms);
    alarmSet(&redlock->step, redlock->limit_ms);
    for (size_t i = 0; i < redlock->count; i++) {
        struct member *member = &redlock->members[i];
        member->vote = VOTE_NONE;
        if (isReady(member)) {
            redlockAcquireAt(member, redlockOnAcquired);
        }
    }
}

/* The time for the replies has ended. */
static void redlockEndRound(struct redlock *redlock) {
    countAsking(redlock, true);
}

/* Time in which this process did not run, because it was stopped or the machine was suspended, does
 * not count as silence of the servers. */
static void forgiveStall(struct redlock *redlock) {
    int64_t expected_ms = redlock->limit_ms + PAUSE_MS + PAUSE_MORE_MS;
    int64_t late_ms = clockNow() - redlock->asked_ms - expected_ms;
    if (late_ms > GAP_MS) {
        redlock->replied_ms += late_ms;
    }
}

/* Stores why servers have refused: the reason once if it is the same for all, otherwise with their
 * names. */
static void explainRefusal(struct redlock *redlock) {
    char *common = NULL;
    char *all = NULL;
    bool is_common = true;
    for (size_t i = 0; i < redlock->count; i++) {
        const struct member *member = &redlock->members[i];
        if (!member->why) {
            continue;
        }
        char *place = memberName(member);
        char *longer =
            memoryPrint("%s%s%s: %s", all ? all : "", all ? "; " : "", place, member->why);
        free(place);
        free(all);
        all = longer;
        is_common = is_common && (!common || strcmp(common, member->why) == 0);
        common = member->why;
    }
    free(redlock->refusal);
    redlock->refusal = is_common && common ? memoryPrint("%s", common) : memoryPrint("%s", all);
    free(all);
}

/* Ends because no majority can grant the lock, for a reason other than another client. */
static void endUnavailable(struct redlock *redlock) {
    bool is_refused = redlock->count - unableCount(redlock) < redlockQuorum(redlock);
    if (is_refused) {
        explainRefusal(redlock);
    }
    redlockNotHad(redlock, FAILURE_UNAVAILABLE,
                  is_refused ? redlock->refusal : "no majority of the servers replied");
}

/* The pause after a failed round has ended. */
static void redlockEndPause(struct redlock *redlock) {
    forgiveStall(redlock);
    bool is_refused = redlock->count - redlockVotes(redlock, VOTE_REFUSED) < redlockQuorum(redlock);
    bool is_silent = clockNow() - redlock->replied_ms >= redlock->wish->silence_ms;
    if (is_refused || is_silent || (waitHasEnded(redlock) && !redlock->is_answered)) {
        endUnavailable(redlock);
    } else if (waitHasEnded(redlock)) {
        redlockNotHad(redlock, FAILURE_NOT_HAD, "another client holds the lock");
    } else {
        redlockBeginRound(redlock);
    }
}

/* ---- the alarms ---- */

static void onStep(void *arg) {
    struct redlock *redlock = arg;
    switch (redlock->stage) {
    case REDLOCK_STARTING:
        redlockBeginRound(redlock);
        break;
    case REDLOCK_ASKING:
        redlockEndRound(redlock);
        break;
    case REDLOCK_PAUSING:
        redlockEndPause(redlock);
        break;
    case REDLOCK_HOLDING:
        redlockRenewAll(redlock);
        break;
    case REDLOCK_RELEASING:
        redlockOver(redlock);
        break;
    case REDLOCK_OVER:
        break;
    }
}

static void redlockOnClock(void *arg) {
    redlockLeaseEnds(arg);
}

/* ---- connections ---- */

/* The first round starts when every attempt to connect has ended, or when the time for that has
 * ended. */
static void startIfAllAreTried(struct redlock *redlock) {
    bool all = redlock->stage == REDLOCK_STARTING;
    for (size_t i = 0; i < redlock->count; i++) {
        all = all && redlock->members[i].is_tried;
    }
    if (all) {
        redlockBeginRound(redlock);
    }
}

/* The server must not be a member: the text says why. */
static void refuseMember(struct member *member, char *why) {
    struct redlock *redlock = member->redlock;
    if (redlock->stage == REDLOCK_HOLDING && !redlock->is_lost) {
        failureSay("%s", why);
        free(why);
        member->is_barred = true;
        member->holds = member->has_again = false;
        countRenewals(redlock);
    } else if (redlock->stage == REDLOCK_STARTING || redlock->stage == REDLOCK_ASKING ||
               redlock->stage == REDLOCK_PAUSING) {
        free(redlock->refusal);
        redlock->refusal = why;
        redlockNotHad(redlock, FAILURE_UNAVAILABLE, why);
    } else {
        free(why);
    }
}

/* Returns why two servers cannot both be members, or NULL. */
static char *clash(const struct member *one, const struct member *other) {
    const char *what =
        identityIsSameServer(&one->identity, &other->identity)    ? "are the same server"
        : identityIsSameCluster(&one->identity, &other->identity) ? "are nodes of one cluster"
                                                                  : NULL;
    if (!what) {
        return NULL;
    }
    char *place = memberName(one);
    char *other_place = memberName(other);
    char *why =
        memoryPrint("%s and %s %s: a majority needs independent servers", other_place, place, what);
    free(place);
    free(other_place);
    return why;
}

/* Returns why the server cannot be a member, or NULL. In a cluster a replica names its master, and
 * a sentinel will name another server. */
static char *mistake(const struct member *member) {
    const struct redlock *redlock = member->redlock;
    if (member->identity.is_replica && !member->identity.is_cluster &&
        member->server.route.url->kind != URL_SENTINEL) {
        char *place = memberName(member);
        char *why = memoryPrint("%s is a replica: a majority needs independent servers", place);
        free(place);
        return why;
    }
    char *why = NULL;
    for (size_t i = 0; i < redlock->count && !why; i++) {
        const struct member *other = &redlock->members[i];
        if (other != member && serverIsOpen(&other->server)) {
            why = clash(member, other);
        }
    }
    return why;
}

/* More is known about the server. */
static void onIdentified(struct member *member, bool is_all) {
    char *why = mistake(member);
    member->is_tried = member->is_tried || is_all;
    if (why) {
        refuseMember(member, why);
    } else {
        startIfAllAreTried(member->redlock);
    }
}

static void onNodes(void *arg, redisReply *reply) {
    struct member *member = arg;
    identityTakeNodes(&member->identity, reply);
    onIdentified(member, true);
}

static void redlockOnInfo(void *arg, redisReply *reply) {
    struct member *member = arg;
    bool is_cluster = member->identity.is_cluster;
    identityTakeInfo(&member->identity, reply);
    if (is_cluster) {
        struct words words;
        identityRequestNodes(&words);
        serverAsk(&member->server, &words, member->redlock->wish->silence_ms, onNodes, member);
    }
    onIdentified(member, !is_cluster);
}

static void onHello(void *arg, redisReply *reply) {
    struct member *member = arg;
    identityTakeHello(&member->identity, reply);
}

static void redlockOnOpened(void *arg) {
    struct member *member = arg;
    struct redlock *redlock = member->redlock;
    struct words words;
    member->unanswered = 0;
    member->is_barred = false;
    identityForget(&member->identity);
    identityRequestHello(&words);
    serverAsk(&member->server, &words, 0, onHello, member);
    identityRequestInfo(&words);
    serverAsk(&member->server, &words, redlock->wish->silence_ms, redlockOnInfo, member);
    if (redlock->stage == REDLOCK_PAUSING || redlock->stage == REDLOCK_RELEASING) {
        redlockReleaseAll(redlock);
    }
}

static void redlockOnFailed(void *arg, const char *why, bool is_final) {
    struct member *member = arg;
    if (is_final) {
        failureSay("%s", why);
    }
    forgetUnanswered(member);
    free(member->why);
    member->why = NULL;
    member->is_tried = true;
    startIfAllAreTried(member->redlock);
}

static const struct serverWatch member_watch = {redlockOnOpened, redlockOnFailed};

/* ---- calls from the user of the holder ---- */

static void beginRedlock(struct holder *holder) {
    struct redlock *redlock = (struct redlock *)holder;
    int64_t wait_ms = redlock->wish->wait_ms;
    redlock->begun_ms = redlock->replied_ms = clockNow();
    redlock->wait_end_ms = wait_ms < 0 ? -1 : clockNow() + wait_ms;
    for (size_t i = 0; i < redlock->count; i++) {
        serverOpen(&redlock->members[i].server);
    }
    alarmSet(&redlock->step, 2 * redlock->limit_ms); /* to connect, and to identify the server */
}

static void endRedlock(struct holder *holder, enum holderEnd how) {
    struct redlock *redlock = (struct redlock *)holder;
    redlock->is_kept = how == HOLDER_KEEP;
    beginToRelease(redlock);
}

static void freeRedlock(struct holder *holder) {
    struct redlock *redlock = (struct redlock *)holder;
    for (size_t i = 0; i < redlock->count; i++) {
        serverFree(&redlock->members[i].server);
        identityForget(&redlock->members[i].identity);
        free(redlock->members[i].why);
    }
    alarmFree(&redlock->step);
    alarmFree(&redlock->clock);
    free(redlock->refusal);
    free(redlock);
}

static int64_t limitOf(int64_t lease_ms) {
    int64_t share = lease_ms / LIMIT_SHARE;
    return share < SHORTEST_LIMIT_MS  ? SHORTEST_LIMIT_MS
           : share > LONGEST_LIMIT_MS ? LONGEST_LIMIT_MS
                                      : share;
}

struct holder *redlockNew(struct event_base *base, const struct url *urls, size_t count,
                          const struct wish *wish, int64_t grace_ms,
                          const struct holderWatch *watch, void *arg, char **why) {
    struct redlock *redlock = memoryNew(sizeof(*redlock) + count * sizeof(struct member));
    redlock->holder = (struct holder){beginRedlock, endRedlock, freeRedlock};
    redlock->wish = wish;
    redlock->watch = watch;
    redlock->arg = arg;
    redlock->grace_ms = grace_ms;
    redlock->limit_ms = limitOf(wish->lease_ms);
    alarmInit(&redlock->step, base, onStep, redlock);
    alarmInit(&redlock->clock, base, redlockOnClock, redlock);
    for (redlock->count = 0; redlock->count < count && !*why; redlock->count++) {
        struct member *member = &redlock->members[redlock->count];
        member->redlock = redlock;
        *why = serverInit(&member->server, base, &urls[redlock->count], LONGEST_LIMIT_MS,
                          &member_watch, member);
    }
    if (*why) {
        freeRedlock(&redlock->holder);
        return NULL;
    }
    return &redlock->holder;
}
