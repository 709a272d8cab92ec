/* See redlock.h. */
#include "hold/redlock.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/memory.h"
#include "hold/redlock_parts.h"
#include "hold/requests.h"

/* The time for one server to reply. It is short compared with the lease, so that dead servers do
 * not use up the lease. */
#define LIMIT_SHARE 20
#define SHORTEST_LIMIT_MS 20
#define LONGEST_LIMIT_MS 1000

size_t redlockQuorum(const struct redlock *redlock) {
    return redlock->count / 2 + 1;
}

size_t redlockVotes(const struct redlock *redlock, enum vote vote) {
    size_t found = 0;
    for (size_t i = 0; i < redlock->count; i++) {
        found += redlock->members[i].vote == vote;
    }
    return found;
}

void redlockAsk(struct member *member, const struct words *words, linkAnswer *answer) {
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

bool redlockIsQuiet(struct member *member) {
    if (member->unanswered > 0 && serverIsOpen(&member->server) && member->silent_rounds++ > 0 &&
        clockNow() - member->silent_ms >= member->redlock->wish->silence_ms) {
        forgetUnanswered(member);
        serverOpen(&member->server);
    }
    return member->unanswered == 0;
}

/* ---- releasing ---- */

static void over(struct redlock *redlock) {
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

static void onReleased(void *arg, redisReply *reply) {
    struct member *member = arg;
    struct redlock *redlock = member->redlock;
    (void)reply; /* NOTHELD is a success too */
    member->unanswered--;
    if (redlock->stage == REDLOCK_RELEASING && isReleased(redlock)) {
        alarmSet(&redlock->step, 0);
    }
}

void redlockReleaseAll(struct redlock *redlock) {
    for (size_t i = 0; i < redlock->count; i++) {
        struct member *member = &redlock->members[i];
        member->holds = false;
        if (member->may_hold && serverIsOpen(&member->server)) {
            struct words words;
            requestRelease(&words, redlock->wish);
            redlockAsk(member, &words, onReleased);
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

void redlockNotHad(struct redlock *redlock, int status, const char *why) {
    redlock->not_had = status;
    redlock->why_not = why;
    beginToRelease(redlock);
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
        over(redlock);
        break;
    case REDLOCK_OVER:
        break;
    }
}

static void onClock(void *arg) {
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

static void onOpened(void *arg) {
    struct member *member = arg;
    struct redlock *redlock = member->redlock;
    member->unanswered = 0;
    member->is_tried = true;
    startIfAllAreTried(redlock);
    if (redlock->stage == REDLOCK_PAUSING || redlock->stage == REDLOCK_RELEASING) {
        redlockReleaseAll(redlock);
    }
}

static void onFailed(void *arg, const char *why, bool is_final) {
    struct member *member = arg;
    if (is_final) {
        failureSay("%s", why);
    }
    forgetUnanswered(member);
    member->is_tried = true;
    startIfAllAreTried(member->redlock);
}

static const struct serverWatch member_watch = {onOpened, onFailed};

/* ---- calls from the user of the holder ---- */

static void beginRedlock(struct holder *holder) {
    struct redlock *redlock = (struct redlock *)holder;
    int64_t wait_ms = redlock->wish->wait_ms;
    redlock->replied_ms = clockNow();
    redlock->wait_end_ms = wait_ms < 0 ? -1 : clockNow() + wait_ms;
    for (size_t i = 0; i < redlock->count; i++) {
        serverOpen(&redlock->members[i].server);
    }
    alarmSet(&redlock->step, redlock->limit_ms);
}

static void endRedlock(struct holder *holder) {
    beginToRelease((struct redlock *)holder);
}

static void freeRedlock(struct holder *holder) {
    struct redlock *redlock = (struct redlock *)holder;
    for (size_t i = 0; i < redlock->count; i++) {
        serverFree(&redlock->members[i].server);
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
    alarmInit(&redlock->clock, base, onClock, redlock);
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
