/* How waits for locks begin and end.
 *
 *   waitersBegin     blocks the client, and adds a waiter to the queue of each key
 *
 * One of the following functions ends the wait:
 *
 *   waitersGrant     replies after the owner has acquired the lock
 *   waitersEnd…      end a wait that has timed out, was cancelled or refused, closes a cycle, or is
 *                    redirected to another node
 *   a callback       ends the wait at the deadline, when the connection closes, or for
 *                    CLIENT UNBLOCK (blocked.h)
 *
 * Others:
 *
 *   waitersFirstNewcomer, waitersGraph     are for the search for cycles
 *   waitersRestore                         creates a waiter for a position that is in the keys
 *
 * To add a way for a wait to end, add a constant to enum waitersEnding and its reply to waitersEnd.
 *
 * Contracts are in waiters.h.
 */
#include "queue/waiters.h"

#include "blocking/drain.h"
#include "blocking/nullreplies.h"
#include "common/config.h"
#include "common/failpoint.h"
#include "common/quarantine.h"
#include "common/reply.h"
#include "common/stats.h"
#include "core/cyclesearch.h"
#include "core/mem.h"
#include "keys/fairqueue.h"
#include "ledger/acks.h"
#include "ledger/events.h"
#include "observing/toplocks.h"
#include "observing/watches.h"
#include "queue/unwritten.h"
#include "server/server.h"
#include "server/timeslice.h"

/* The requests of waiters with a client, except requests for permits, which are only counted. */
static struct waitgraph graph;
static size_t for_permits;
static uint64_t last_number;

struct waitgraph *waitersGraph(void) {
    return &graph;
}

size_t waitersCount(void) {
    return waitgraphSize(&graph) + waitersNewcomerCount() + for_permits;
}

uint64_t waitersLastNumber(void) {
    return last_number;
}

static struct waiter *waitersOfBlocked(struct blocked *blocked) {
    return LIST_ELEMENT(blocked, struct waiter, client);
}

/* ---- how a wait ends ---- */

/* Removes the waiter from the queue of one of its keys. */
static void leaveQueue(RedisModuleCtx *ctx, struct waiter *waiter, struct position *position,
                       bool granted) {
    struct lock *lock = contendedOfPosition(position);
    bool was_in_front = waitqueueFirst(&lock->queue) == position ||
                        waitqueueFirstCandidate(&lock->queue) == position;
    waitqueueRemove(position);
    toplocksEnd(lock, position, granted);
    if (waiter->request.discipline == FAIR) {
        unwrittenNote(lock, waiter);
    }
    /* The waiter may have been in the way of others that fit. After a grant the pass goes on
     * anyway. */
    if (!granted && (was_in_front || waiter->noted)) {
        blockingkeyMarkDue(ctx, &lock->key);
    }
    blockingkeyDropIfIdle(ctx, &lock->key);
}

/* A search that ends by this is freed by the drain, at once: the next search may be long in
 * coming. */
static void leaveGraph(RedisModuleCtx *ctx, struct waiter *waiter) {
    cyclesearchLeave(&graph, &waiter->request);
    if (graph.search && cyclesearchHasEnded(&graph)) {
        drainSetAlarm(ctx, DRAIN_CYCLES, 0);
    }
}

/* Removes the waiter from everything that refers to it, and frees it, unless its position in the
 * keys is still to be removed. */
static void waitersLeave(RedisModuleCtx *ctx, struct waiter *waiter, bool granted) {
    RedisModule_Assert(!waiter->client.bc); /* it has been replied to */
    blockedStopTimer(ctx, &waiter->client);
    leaveGraph(ctx, waiter);
    for_permits -= waiter->wants.lock.mode == MODE_SEMAPHORE;
    waiter->over = true;
    for (size_t i = 0; i < waiter->key_count; i++) {
        leaveQueue(ctx, waiter, &waiter->keys[i].position, granted);
    }
    if (!waiter->noted) {
        waiterFree(waiter);
    }
}

static void answerError(struct waiter *waiter, enum replyError error) {
    blockedAnswerError(&waiter->client, error);
    timesliceCharge(BLOCKED_REPLY_US);
}

void waitersEnd(RedisModuleCtx *ctx, struct waiter *waiter, enum waitersEnding how) {
    switch (how) {
    case WAITERS_TIMED_OUT:
    case WAITERS_CANCELLED:
        nullrepliesSend(ctx, &waiter->client);
        break;
    case WAITERS_NO_TOKEN:
        answerError(waiter, REPLY_NO_TOKEN);
        break;
    case WAITERS_TOO_MANY_HOLDS:
        answerError(waiter, REPLY_TOO_MANY_HOLDS);
        break;
    case WAITERS_TRY_AGAIN:
        answerError(waiter, REPLY_TRY_AGAIN);
        break;
    }
    waitersLeave(ctx, waiter, false);
}

void waitersEndDeadlock(RedisModuleCtx *ctx, struct waiter *waiter, RedisModuleString *cycle) {
    blockedAnswerDeadlock(&waiter->client, cycle);
    waitersLeave(ctx, waiter, false);
}

void waitersEndRedirected(RedisModuleCtx *ctx, struct waiter *waiter, RedisModuleString *error) {
    blockedAnswerText(&waiter->client, error);
    timesliceCharge(BLOCKED_REPLY_US);
    waitersLeave(ctx, waiter, false);
}

void waitersForgetDetached(RedisModuleCtx *ctx, struct lock *lock) {
    blockingkeyUse(&lock->key);
    struct position *next;
    for (struct position *position = waitqueueFirst(&lock->queue); position; position = next) {
        next = waitqueueNext(position);
        if (!waiterOfPosition(position)->client.bc) {
            waitersLeave(ctx, waiterOfPosition(position), false);
        }
    }
    unwrittenForget(lock);
    blockingkeyClearDue(&lock->key);
    blockingkeyEndUse(ctx, &lock->key);
}

/* ---- grants ---- */

/* The wait for the lock has ended, and the wait for its replicas begins. */
static void waitersAwaitReplicas(RedisModuleCtx *ctx, struct waiter *waiter,
                                 const struct waitersGranted *granted) {
    const struct acksAnswer answer = {.replicas = waiter->wants.replicas,
                                      .number = granted->answer,
                                      .pendingreply = granted->pendingreply,
                                      .lease_ms = waiter->wants.lease_ms,
                                      .now_ms = granted->now_ms};
    acksGoOn(ctx, &waiter->client, &answer);
}

void waitersGrant(RedisModuleCtx *ctx, struct waiter *waiter,
                  const struct waitersGranted *granted) {
    (void)failpoint(FAILPOINT_ANSWER);
    /* A position of a fair queue may be older than the server. */
    bool is_fair = waiter->request.discipline == FAIR;
    int64_t from_ms = is_fair ? fairqueueCountedFrom(waiter->since_ms) : waiter->since_ms;
    statsCount(STATS_GRANTED_AFTER_WAIT);
    statsWaited(granted->now_ms - from_ms);
    if (waiter->wants.replicas.count > 0) {
        waitersAwaitReplicas(ctx, waiter, granted);
    } else {
        blockedAnswerNumber(&waiter->client, granted->answer,
                            (struct blockedReceipt){pendingreplyEnd, granted->pendingreply});
        timesliceCharge(BLOCKED_REPLY_US);
    }
    waitersLeave(ctx, waiter, true);
}

/* ---- callbacks of the server ---- */

void waitersReserve(RedisModuleCtx *ctx, struct waiter *waiter) {
    struct lock *lock = contendedOfPosition(&waiter->keys[0].position);
    int64_t now_ms = serverNow();
    blockedEndAt(ctx, &waiter->client, quarantineEndOr(now_ms) + configFairReserveMs());
    unwrittenNote(lock, waiter);
    blockingkeyMarkDue(ctx, &lock->key);
}

static void waitersOnDeadline(RedisModuleCtx *ctx, struct blocked *client) {
    if (client->bc) {
        statsCount(STATS_TIME_OUTS);
    } else if (quarantineIsOn()) {
        waitersReserve(ctx,
                       waitersOfBlocked(client)); /* a quarantine that lasts longer than expected */
        return;
    }
    waitersEnd(ctx, waitersOfBlocked(client), WAITERS_TIMED_OUT);
}

/* The position is kept for a while, for its owner to take it over. */
static void waitersDetach(RedisModuleCtx *ctx, struct waiter *waiter) {
    struct position *position = &waiter->keys[0].position;
    toplocksEnd(contendedOfPosition(position), position, false);
    waiter->began_us = 0;
    leaveGraph(ctx, waiter);
    waitersReserve(ctx, waiter);
}

static void waitersOnGone(RedisModuleCtx *ctx, struct blocked *client) {
    struct waiter *waiter = waitersOfBlocked(client);
    statsCount(STATS_CLIENTS_GONE);
    if (waiter->request.discipline == FAIR) {
        waitersDetach(ctx, waiter);
    } else {
        waitersLeave(ctx, waiter, false);
    }
}

static void waitersOnUnblock(RedisModuleCtx *ctx, struct blocked *client) {
    statsCount(STATS_TIME_OUTS);
    waitersLeave(ctx, waitersOfBlocked(client), false);
}

static const struct blockedKind kind = {waitersOnDeadline, waitersOnGone, waitersOnUnblock};

/* ---- how a wait begins ---- */

static struct waiter *newWaiter(const struct request *wants, size_t key_count) {
    struct waiter *waiter = memAlloc(sizeof(*waiter) + key_count * sizeof(waiter->keys[0]));
    waiter->number = ++last_number;
    waiter->wants = *wants;
    /* A copy: the caller's string may point into a client's query buffer. */
    waiter->wants.owner = RedisModule_CreateStringFromString(NULL, wants->owner);
    waiter->wants.owner_is_kept = true;
    waiter->request.owner =
        RedisModule_StringPtrLen(waiter->wants.owner, &waiter->request.owner_length);
    waiter->request.discipline = wants->discipline;
    waiter->request.once = wants->lock.once;
    waiter->client.kind = &kind;
    return waiter;
}

static struct waiterKey *nameKey(struct waiter *waiter, size_t index, struct lock *lock) {
    struct waiterKey *key = &waiter->keys[index];
    key->name = lock->key.name;
    RedisModule_RetainString(NULL, key->name);
    waiter->key_count = index + 1;
    return key;
}

static void standInLine(struct waiter *waiter, size_t index, struct lock *lock,
                        const struct waitersKey *start) {
    struct waiterKey *key = nameKey(waiter, index, lock);
    if (start->at_head) {
        waitqueueAddFirst(&lock->queue, &key->position, &waiter->request, start->mode);
    } else {
        waitqueueAdd(&lock->queue, &key->position, &waiter->request, start->mode);
    }
    toplocksBegin(lock, waiter);
}

/* A reader of this lock that waits for another lock leaves it to the readers behind it. */
static void standAsideUnless(struct waiter *waiter, size_t index, bool waits_here) {
    struct position *position = &waiter->keys[index].position;
    if (position->mode == MODE_READ && !waits_here) {
        waitqueueStandAside(position);
    }
}

/* Gives a fair waiter the position of `old`, its owner's earlier waiter. The client of `old`, if it
 * has one, receives null. `old` is freed. */
static void takeOver(RedisModuleCtx *ctx, struct waiter *old, struct waiter *waiter) {
    struct position *old_position = &old->keys[0].position;
    struct lock *lock = contendedOfPosition(old_position);
    struct waiterKey *key = nameKey(waiter, 0, lock);
    cyclesearchLeave(&graph, &old->request);
    waitqueueTakeOver(old_position, &key->position, &waiter->request);
    waiter->ticket = old->ticket;
    waiter->since_ms = old->since_ms;
    blockedStopTimer(ctx, &old->client);
    if (old->began_us) {
        waiter->began_us = old->began_us;
    } else {
        toplocksBegin(lock, waiter);
    }
    unwrittenDrop(lock, old);
    blockedAnswerNull(&old->client);
    waiterFree(old);
}

static void standInLines(RedisModuleCtx *ctx, const struct waitersStart *start,
                         struct waiter *waiter) {
    if (start->own) {
        takeOver(ctx, start->own, waiter);
        return;
    }
    waiter->in_the_way = start->in_the_way;
    for (size_t i = 0; i < start->key_count; i++) {
        const struct waitersKey *key = &start->keys[i];
        standInLine(waiter, i, contendedFindOrMake(waiter->db, key->name), key);
        standAsideUnless(waiter, i, i == start->in_the_way);
        watchesNoteWaiter(ctx, key->name);
    }
}

/* If deadlock detection is off, the wait enters the graph at once. Requests for permits do not
 * enter it. */
static void awaitSearch(RedisModuleCtx *ctx, struct waiter *waiter) {
    if (waiter->wants.lock.mode == MODE_SEMAPHORE) {
        for_permits++;
        return;
    }
    if (!configDeadlockDetection()) {
        cyclesearchEnter(&graph, &waiter->request);
        return;
    }
    waitgraphAnnounce(&graph, &waiter->request);
    drainSetAlarm(ctx, DRAIN_CYCLES, WAITERS_SEARCH_DELAY_MS);
}

/* Blocks the client. Returns its new waiter, or NULL if the server does not block this client. */
static struct waiter *waitersBlock(RedisModuleCtx *ctx, const struct waitersStart *start) {
    const struct request *wants = start->wants;
    eventsWatchKeys(ctx);
    blockingkeyWatchSlots(ctx);
    struct waiter *waiter = newWaiter(wants, start->key_count);
    if (!blockedBegin(&waiter->client, ctx, &kind)) {
        waiterFree(waiter);
        return NULL;
    }
    waiter->db = RedisModule_GetSelectedDb(ctx);
    waiter->since_ms = wants->now_ms;
    uint64_t now_us = RedisModule_MonotonicMicroseconds();
    waiter->began_us = (int64_t)now_us;
    /* Not computed from `began_us` later, because a takeover replaces that by the earlier
     * waiter's. */
    waiter->search_at_us = now_us + (uint64_t)WAITERS_SEARCH_DELAY_MS * 1000;
    blockedEndAfter(ctx, &waiter->client, wants->block_ms, wants->now_ms);
    return waiter;
}

bool waitersMayWait(RedisModuleCtx *ctx, const struct request *wants) {
    return wants->block_ms != REQUEST_NO_WAIT && serverMayBlock(ctx);
}

enum result waitersBegin(RedisModuleCtx *ctx, const struct waitersStart *start,
                         struct waiter **waiter) {
    if (!waitersMayWait(ctx, start->wants)) {
        return RESULT_BUSY;
    }
    bool replaces_client = start->own && start->own->client.bc;
    if (!replaces_client && !blockedHaveRoom()) {
        return RESULT_TOO_MANY_WAITERS;
    }
    *waiter = waitersBlock(ctx, start);
    if (!*waiter) {
        return RESULT_BUSY;
    }
    standInLines(ctx, start, *waiter);
    awaitSearch(ctx, *waiter);
    return RESULT_WAITING;
}

void waitersRestore(RedisModuleCtx *ctx, struct lock *lock, const struct fairposition *position,
                    struct waitersLife life) {
    const struct request wants = {
        .owner = position->owner, .lock.mode = MODE_EXCLUSIVE, .discipline = FAIR};
    const struct waitersKey first = {lock->key.name, MODE_EXCLUSIVE, .at_head = true};
    struct waiter *waiter = newWaiter(&wants, 1);
    waiter->db = lock->key.db;
    waiter->ticket = position->ticket;
    waiter->placed = true;
    waiter->since_ms = fairqueueArrival(position->ticket, life.now_ms);
    standInLine(waiter, 0, lock, &first);
    watchesNoteWaiter(ctx, lock->key.name);
    blockedEndAt(ctx, &waiter->client, life.end_ms);
}

/* ---- for the grant pass ---- */

/* Readers for several keys that wait for another key may have been ahead of the position. They now
 * wait for its owner, without a search from them: so one is made from the position, once more. */
void waitersMoveFirst(RedisModuleCtx *ctx, struct position *position) {
    bool closes_waits = position->queue->multikey > 0;
    if (closes_waits) {
        leaveGraph(ctx, waiterOfPosition(position));
    } else {
        cyclesearchMove(&graph, position);
    }
    waitqueueMoveFirst(position);
    if (closes_waits) {
        awaitSearch(ctx, waiterOfPosition(position));
    }
}

void waitersNoteInTheWay(struct waiter *waiter, size_t index) {
    if (index == waiter->in_the_way) {
        return;
    }
    standAsideUnless(waiter, waiter->in_the_way, false);
    waiter->in_the_way = index;
    if (waiter->keys[index].position.mode == MODE_READ) {
        waitqueueStandIn(&waiter->keys[index].position);
    }
}

/* ---- for the search for cycles ---- */

struct waiter *waitersFirstNewcomer(void) {
    struct waitRequest *first = waitgraphFirstNewcomer(&graph);
    return LIST_ELEMENT_OR_NULL(first, struct waiter, request);
}

size_t waitersNewcomerCount(void) {
    return graph.newcomers.length;
}

void waitersSearched(struct waiter *newcomer) {
    waitgraphEnter(&graph, &newcomer->request);
}
