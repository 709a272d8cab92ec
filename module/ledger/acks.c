/* How a wait for replicas begins, what is checked in each event-loop iteration, and how it ends.
 *
 *   acksReady, acksBegin, acksGoOn     begin the wait of a reply
 *
 * One of the following functions ends the wait:
 *
 *   acksOnIteration                    sends the reply, because enough replicas have acknowledged
 *   acksOnDeadline, acksFirstRefused…  refuse the reply after the timeout, for release.c
 *   acksCancel                         ends the wait for LOCK.CANCEL
 *   acksOnGone, acksOnUnblock          end the wait after the connection has closed, or for CLIENT
 *                                      UNBLOCK (blocked.h)
 *
 * Contracts are in acks.h. The reasons are in docs/design.md, "Replies that wait for replicas".
 */
#include "ledger/acks.h"

#include "blocking/drain.h"
#include "common/replicas.h"
#include "common/stats.h"
#include "core/list.h"
#include "core/mem.h"
#include "ledger/acklines.h"
#include "ledger/events.h"
#include "server/loop.h"
#include "server/server.h"
#include "server/timeslice.h"

/* A check that found nothing new delays the next one by FIRST_PAUSE_US, and each further one by
 * twice as much, up to LONGEST_PAUSE_US. */
#define FIRST_PAUSE_US 50
#define LONGEST_PAUSE_US 1000

/* A deadline that is handled this much too late shows that the server was busy. */
#define LATE_US 3000

/* The first check after a busy time comes before the sockets are read, the second one after
 * that. */
#define GRACE_LOOKS 2

/* Event-loop iterations are watched for this long after the last reply. */
#define REST_MS 100

struct ack {
    struct blocked client;
    struct ackplace place;  /* until the reply is sent or refused */
    struct link in_refused; /* after that, until the drain has sent the reply */
    bool is_refused;
    bool is_cancelled; /* also refused: its client receives null */
    int64_t number;
    struct pendingreply *pendingreply; /* NULL: it is lost already */
    uint64_t grace_until_look;         /* 0: it needed none so far */
};

static struct {
    struct list refused;
    int64_t newest; /* the highest offset that a reply waits for */
    uint64_t look_at_us, pause_us;
    uint64_t looks;      /* how many checks have been made */
    uint64_t rest_at_us; /* when nobody waits: when to stop watching event-loop iterations */
} acks;

size_t acksCount(void) {
    return acklinesCount() + acks.refused.length;
}

static struct ack *acksOfBlocked(struct blocked *client) {
    return LIST_ELEMENT(client, struct ack, client);
}

/* ---- how a wait ends ---- */

/* The reply has been sent, or the client is gone: frees `ack`. */
static void acksLeave(RedisModuleCtx *ctx, struct ack *ack) {
    RedisModule_Assert(!ack->client.bc && !ack->pendingreply);
    blockedStopTimer(ctx, &ack->client);
    acklinesLeave(&ack->place);
    if (ack->is_refused) {
        listRemove(&acks.refused, &ack->in_refused);
    }
    memFree(ack);
    if (acksCount() == 0) {
        acks.rest_at_us = RedisModule_MonotonicMicroseconds() + REST_MS * 1000;
        drainSetAlarm(ctx, DRAIN_ACKS_END, REST_MS);
    }
}

void acksLose(RedisModuleCtx *ctx, struct ack *ack) {
    struct pendingreply *pendingreply = ack->pendingreply;
    if (pendingreply) {
        ack->pendingreply = NULL;
        pendingreplyAwaits(pendingreply, NULL);
        pendingreplyEnd(ctx, false, pendingreply);
    }
}

static void acksReply(RedisModuleCtx *ctx, struct ack *ack) {
    struct blockedReceipt receipt = {pendingreplyEnd, ack->pendingreply};
    pendingreplyAwaits(ack->pendingreply, NULL);
    ack->pendingreply = NULL;
    blockedAnswerNumber(&ack->client, ack->number, receipt);
    timesliceCharge(BLOCKED_REPLY_US);
    acksLeave(ctx, ack);
}

void acksReplyRefused(RedisModuleCtx *ctx, struct ack *ack) {
    if (ack->is_cancelled) {
        blockedAnswerNull(&ack->client);
    } else {
        blockedAnswerError(&ack->client, REPLY_NOT_ACKNOWLEDGED);
    }
    timesliceCharge(BLOCKED_REPLY_US);
    acksLeave(ctx, ack);
}

static void acksRefuse(RedisModuleCtx *ctx, struct ack *ack, enum statsCounter reason) {
    statsCount(reason);
    blockedStopTimer(ctx, &ack->client);
    acklinesLeave(&ack->place);
    ack->is_refused = true;
    listAddLast(&acks.refused, &ack->in_refused);
}

struct ack *acksFirstRefused(void) {
    struct link *first = acks.refused.first;
    return LIST_ELEMENT_OR_NULL(first, struct ack, in_refused);
}

struct cancelling {
    RedisModuleCtx *ctx;
    size_t count;
};

static void acksCancelOne(struct ack *ack, void *data) {
    struct cancelling *cancelling = data;
    if (ack->is_cancelled) {
        return;
    }
    ack->is_cancelled = true;
    cancelling->count++;
    if (ack->is_refused) {
        statsCount(STATS_CANCELLED);
    } else {
        acksRefuse(cancelling->ctx, ack, STATS_CANCELLED);
    }
}

/* The drain does the rest, in time slices, because there may be many. */
size_t acksCancel(RedisModuleCtx *ctx, const struct holdId *id) {
    struct cancelling cancelling = {ctx, 0};
    pendingreplyEachAwaiting(id, acksCancelOne, &cancelling);
    if (cancelling.count > 0) {
        drainSetAlarm(ctx, DRAIN_REFUSED_ACKS, 0);
    }
    return cancelling.count;
}

/* ---- callbacks of the server ---- */

/* When the server has been busy, it calls timers before it reads its sockets: an acknowledgement
 * that was in time may be unread. Checks are counted, not time, because the server may also be slow
 * in making them. */
static bool isGivenGrace(RedisModuleCtx *ctx, struct ack *ack) {
    int64_t late_us = timerNow() - ack->client.timer.place.at;
    if (ack->grace_until_look == 0 && late_us >= LATE_US) {
        ack->grace_until_look = acks.looks + GRACE_LOOKS;
    }
    if (acks.looks >= ack->grace_until_look) {
        return false;
    }
    blockedEndAfter(ctx, &ack->client, 1, serverNow());
    return true;
}

static void acksOnDeadline(RedisModuleCtx *ctx, struct blocked *client) {
    struct ack *ack = acksOfBlocked(client);
    if (!isGivenGrace(ctx, ack)) {
        acksRefuse(ctx, ack, STATS_NOT_ACKNOWLEDGED);
        drainRunSoon(ctx, DRAIN_REFUSED_ACKS);
    }
}

static void acksOnGone(RedisModuleCtx *ctx, struct blocked *client) {
    statsCount(STATS_CLIENTS_GONE);
    acksLose(ctx, acksOfBlocked(client));
    acksLeave(ctx, acksOfBlocked(client));
}

static void acksOnUnblock(RedisModuleCtx *ctx, struct blocked *client) {
    statsCount(STATS_TIME_OUTS);
    acksLose(ctx, acksOfBlocked(client));
    acksLeave(ctx, acksOfBlocked(client));
}

static const struct blockedKind kind = {acksOnDeadline, acksOnGone, acksOnUnblock};

/* ---- the check at the end of each event-loop iteration ---- */

/* What was written since the last check is in the stream by now. */
static void placeFresh(void) {
    if (acklinesFresh() > 0) {
        acks.newest = replicasSent();
        acklinesPlaceFresh(acks.newest);
    }
}

/* If a hold of the reply no longer exists, the reply is refused. */
static void acksReplyOrRefuse(RedisModuleCtx *ctx, struct ack *ack) {
    if (pendingreplyIsValid(ctx, ack->pendingreply)) {
        acksReply(ctx, ack);
    } else {
        acksRefuse(ctx, ack, STATS_NOT_ACKNOWLEDGED);
        drainSetAlarm(ctx, DRAIN_REFUSED_ACKS, 0);
    }
}

static void acksReplyAcknowledged(RedisModuleCtx *ctx) {
    struct ackplace *place;
    timesliceBegin();
    while ((place = acklinesFirstAcknowledged()) && !timesliceHasEnded()) {
        acksReplyOrRefuse(ctx, LIST_ELEMENT(place, struct ack, place));
    }
    timesliceEnd();
    if (place) {
        drainWakeLoop(); /* the others in the next iteration, without a sleep */
    }
}

/* Whether the check can find anything: there is a new reply to request acknowledgements for, or a
 * pause has ended. A check that is delayed is made in the first iteration after the pause, which
 * the alarm brings about. */
static bool isTimeToLook(RedisModuleCtx *ctx, uint64_t now_us) {
    if ((acklinesFresh() > 0 && replicasHaveAnswered()) || now_us >= acks.look_at_us) {
        return true;
    }
    drainSetAlarm(ctx, DRAIN_ACKS_END, 1);
    return false;
}

static void acksSetNextLook(bool soon, uint64_t now_us) {
    uint64_t longer_us = acks.pause_us ? acks.pause_us * 2 : FIRST_PAUSE_US;
    acks.pause_us = soon ? 0 : longer_us;
    if (acks.pause_us > LONGEST_PAUSE_US) {
        acks.pause_us = LONGEST_PAUSE_US;
    }
    acks.look_at_us = now_us + acks.pause_us;
}

static void acksOnIteration(RedisModuleCtx *ctx) {
    uint64_t now_us = RedisModule_MonotonicMicroseconds();
    if (acklinesCount() == 0 || !isTimeToLook(ctx, now_us)) {
        return;
    }
    int64_t before = replicasAcknowledged(1);
    replicasLook(ctx);
    acks.looks++;
    bool has_news = acklinesFirstAcknowledged() || replicasAcknowledged(1) > before;
    placeFresh();
    acksReplyAcknowledged(ctx);
    bool has_asked = acklinesCount() > 0 && replicasAsk(ctx, acks.newest);
    acksSetNextLook(has_news || has_asked, now_us);
}

/* ---- how a wait begins ---- */

enum result acksReady(RedisModuleCtx *ctx, const struct requestReplicas *replicas) {
    if (replicas->count == 0) {
        return RESULT_DONE;
    }
    if (!serverMayBlock(ctx)) {
        return RESULT_NO_WAIT_FOR_REPLICAS;
    }
    eventsWatchReplicas(ctx);
    if ((int64_t)replicasOnline(ctx) < replicas->count) {
        return RESULT_FEW_REPLICAS;
    }
    return blockedHaveRoom() ? RESULT_DONE : RESULT_TOO_MANY_WAITERS;
}

/* What is written after this iteration's check is checked in the next iteration, which may be long
 * in coming: so the loop is woken. Equivalent: the server's cron starts one a tenth of a second
 * later. */
static void watchIterations(RedisModuleCtx *ctx) {
    if (!loopIsWatched()) {
        acks.newest = -1;
        acks.pause_us = acks.look_at_us = 0;
        replicasForgetQuestion();
        loopWatch(ctx, acksOnIteration);
    }
    if (loopHasCalled()) {
        drainWakeLoop();
    }
}

static void acksBeginWait(RedisModuleCtx *ctx, struct ack *ack, const struct acksAnswer *answer) {
    int64_t within_ms = answer->replicas.within_ms;
    if (within_ms > answer->lease_ms) {
        within_ms = answer->lease_ms;
    }
    ack->number = answer->number;
    ack->pendingreply = answer->pendingreply;
    if (!answer->is_renewal) {
        pendingreplyAwaits(answer->pendingreply, ack);
    }
    acklinesEnter(&ack->place, (size_t)answer->replicas.count);
    blockedEndAfter(ctx, &ack->client, within_ms, answer->now_ms);
    watchIterations(ctx);
}

enum result acksBegin(RedisModuleCtx *ctx, const struct acksAnswer *answer) {
    struct ack *ack = memAlloc(sizeof(*ack));
    if (!blockedBegin(&ack->client, ctx, &kind)) {
        memFree(ack);
        pendingreplyEnd(ctx, false, answer->pendingreply);
        return RESULT_NO_WAIT_FOR_REPLICAS;
    }
    acksBeginWait(ctx, ack, answer);
    return RESULT_WAITING;
}

void acksGoOn(RedisModuleCtx *ctx, struct blocked *client, const struct acksAnswer *answer) {
    struct ack *ack = memAlloc(sizeof(*ack));
    blockedMove(client, &ack->client, &kind);
    acksBeginWait(ctx, ack, answer);
}

/* ---- for the drain ---- */

void acksForget(RedisModuleCtx *ctx) {
    if (acksCount() == 0 && loopIsWatched()) {
        loopForget(ctx);
    }
}

void acksRest(RedisModuleCtx *ctx, int64_t now_ms) {
    (void)now_ms;
    if (acksCount() > 0 || !loopIsWatched()) {
        return;
    }
    if (RedisModule_MonotonicMicroseconds() < acks.rest_at_us) {
        drainSetAlarm(ctx, DRAIN_ACKS_END, REST_MS);
    } else {
        loopForget(ctx);
    }
}

void acksHold(RedisModuleCtx *ctx, int64_t now_ms) {
    (void)now_ms;
    struct ack *ack;
    while ((ack = acksFirstRefused()) && !timesliceHasEnded()) {
        acksLose(ctx, ack);
        acksReplyRefused(ctx, ack);
    }
    if (ack) {
        drainSetAlarm(ctx, DRAIN_REFUSED_ACKS, 0);
    }
}
