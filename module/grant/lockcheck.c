/* See lockcheck.h. */
#ifndef CHECKED
#define CHECKED /* also when this file is checked alone: make tidy */
#endif
#include "grant/lockcheck.h"

#include <stdlib.h>
#include <string.h>

#include "common/quarantine.h"
#include "core/mem.h"
#include "core/queuecheck.h"
#include "delay/queues.h"
#include "keys/fence.h"
#include "keys/tally.h"
#include "ledger/pendingreply.h"
#include "ledger/sessions.h"
#include "ledger/unconfirmedrecords.h"
#include "observing/toplocks.h"
#include "queue/cancelled.h"
#include "queue/waiters.h"
#include "server/server.h"

/* Each pass adds EARNED positions to the number that may be checked, up to MOST_SAVED, which is
 * what ten of the longest queues of the tests need. */
#define EARNED 64
#define MOST_SAVED 100000

/* The holders of a lock that has more than this are not compared: only tests of large numbers have
 * so many. */
#define MOST_HOLDERS 64

/* ---- what is written to the log ---- */

static const char *nameOfMode(enum lockMode mode) {
    static const char *const names[MODE_COUNT] = {[MODE_READ] = "read",
                                                  [MODE_WRITE] = "write",
                                                  [MODE_EXCLUSIVE] = "exclusive",
                                                  [MODE_SEMAPHORE] = "semaphore"};
    return names[mode];
}

static void logPosition(RedisModuleCtx *ctx, struct position *position) {
    const struct waitRequest *request = position->request;
    struct waiter *waiter = waiterOfPosition(position);
    RedisModule_Log(ctx, "warning",
                    "  position %lld: owner %.*s, %s, discipline %d, client %llu%s, ticket %lld, "
                    "deadline %lld%s%s%s%s",
                    (long long)position->order, (int)request->owner_length, request->owner,
                    nameOfMode(position->mode), (int)request->discipline, waiter->client.client_id,
                    waiter->client.bc ? "" : " (gone)", (long long)waiter->ticket,
                    (long long)blockedEndMs(&waiter->client, serverNow()),
                    position->is_tie ? ", tie" : "", request->is_newcomer ? ", newcomer" : "",
                    waiter->noted ? ", noted" : "", waiter->over ? ", over" : "");
}

static void logLock(RedisModuleCtx *ctx, struct lock *lock) {
    RedisModule_Log(
        ctx, "warning", "lock %s in database %d: %zu positions, notes %u%s%s%s, timer %s at %lld",
        RedisModule_StringPtrLen(lock->key.name, NULL), lock->key.db, lock->queue.positions.length,
        lock->key.notes, lock->key.due ? ", due" : "", lock->is_cut ? ", cut" : "",
        lock->key.in_use ? ", in use" : "", lock->key.timer.is_set ? "set" : "not set",
        (long long)lock->key.timer.place.at);
    const size_t most = 20;
    struct position *position = waitqueueFirst(&lock->queue);
    for (size_t i = 0; position && i < most; i++, position = waitqueueNext(position)) {
        logPosition(ctx, position);
    }
}

static void logHolder(const struct holder *holder, void *ctx) {
    RedisModule_Log(ctx, "warning", "  holder %s: %s, %lld holds",
                    RedisModule_StringPtrLen(holder->owner, NULL), nameOfMode(holder->mode),
                    (long long)holder->count);
}

/* Logs the lock and ends the server. */
static void fail(struct holds *holds, struct lock *lock, const char *fault) {
    RedisModule_Log(holds->ctx, "warning", "broken invariant: %s", fault);
    if (lock) {
        logLock(holds->ctx, lock);
    }
    RedisModule_Log(holds->ctx, "warning", "lock %s has kind %d at %lld",
                    RedisModule_StringPtrLen(holds->name, NULL), (int)holds->kind,
                    (long long)holds->now_ms);
    holdsEach(holds, logHolder, holds->ctx);
    RedisModule__Assert(fault, __FILE__, __LINE__);
    abort();
}

/* ---- memory ---- */

static bool isToEnd(const struct waiter *waiter) {
    int64_t block_ms = waiter->wants.block_ms;
    return !waiter->client.bc || (block_ms > 0 && timerAfter(block_ms) != INT64_MAX);
}

/* Checks invariants 3 and 4 for one waiter. These functions return what is wrong, or NULL. */
static const char *waiterFault(const struct waiter *waiter) {
    bool searched = waitgraphHas(&waiter->request);
    if (waiter->over) {
        return "a wait that has ended is in a queue";
    }
    if (!waiter->client.timer.is_set && isToEnd(waiter)) {
        return "a wait that is to end has no timer";
    }
    if (waiter->client.bc) {
        if (!blockedIsFound(&waiter->client)) {
            return "a waiter that its client does not lead to";
        }
        return searched || waiter->request.is_newcomer || waiter->wants.lock.mode == MODE_SEMAPHORE
                   ? NULL
                   : "a waiter that no search sees, nor is to be made from";
    }
    if (waiter->request.discipline != FAIR) {
        return "a position that is kept though it is not fair";
    }
    return searched || waiter->request.is_newcomer ? "a kept position that waits" : NULL;
}

static const char *lockFault(const struct lock *lock) {
    if (contendedFind(lock->key.db, lock->key.name) != lock) {
        return "a contended lock that its name does not lead to";
    }
    return queuecheckFault(&lock->queue);
}

/* ---- memory and keys ---- */

/* Checks invariant 2 for one waiter: if it is at the head, or its owner holds the lock, it does not
 * fit. A waiter for several keys fits only if all of them do, which multikey.c decides. */
static const char *fitFault(struct holds *holds, const struct waiter *waiter, bool is_head) {
    struct holdsView view;
    bool is_kept = !waiter->client.bc || cancelledHas(waiter);
    if (is_kept || waiter->request.discipline == MULTIKEY) {
        return NULL;
    }
    holdsSeenBy(holds, waiter->wants.owner, &view);
    bool by_rule_2 = holds->kind != HOLDS_SEMAPHORE && !view.foreign && rulesOwnsAny(&view);
    enum verdict verdict = rulesDecide(&waiter->wants.lock, &view);
    bool may_fit = is_head || by_rule_2 || verdict == VERDICT_HELD;
    return may_fit && rulesFits(verdict) ? "a waiter that fits waits" : NULL;
}

/* Positions that were read from the keys may have equal tickets, or scores too large for a double
 * to represent exactly: another client has written there. */
static const char *ticketFault(const struct waiter *waiter, const struct waiter **last_fair) {
    if (waiter->request.discipline != FAIR || waiter->ticket >= INT64_C(1) << 53) {
        return NULL;
    }
    bool is_in_order = !*last_fair || (*last_fair)->ticket <= waiter->ticket;
    *last_fair = waiter;
    return is_in_order ? NULL : "tickets that are not in the order of positions";
}

/* Whether the holders can be read from the key. */
static bool isReadable(const struct holds *holds) {
    return holds->kind != HOLDS_WRONG_TYPE && holds->kind != HOLDS_MOVING &&
           holds->kind != HOLDS_IN_USE;
}

static const char *positionsFault(struct holds *holds, struct lock *lock) {
    bool was_passed = !lock->is_cut && isReadable(holds) && !quarantineIsOn();
    struct position *head = waitqueueFirst(&lock->queue);
    const struct waiter *last_fair = NULL;
    const char *fault = NULL;
    size_t waiting = 0;
    for (struct position *position = head; position && !fault; position = waitqueueNext(position)) {
        const struct waiter *waiter = waiterOfPosition(position);
        fault = waiterFault(waiter);
        if (!fault && was_passed) {
            fault = fitFault(holds, waiter, position == head);
        }
        if (!fault) {
            fault = ticketFault(waiter, &last_fair);
        }
        waiting += waiter->client.bc && waiter->began_us > 0;
    }
    bool is_counted = fault || waiting == lock->waiting;
    return is_counted ? fault : "another number of waits that LOCK.TOP counts";
}

static bool affords(size_t positions) {
    static size_t saved = EARNED;
    bool enough = positions <= saved;
    saved -= enough ? positions : 0;
    saved += saved < MOST_SAVED ? EARNED : 0;
    return enough;
}

void lockcheckAfterPass(struct holds *holds, struct lock *lock, int64_t look_ms) {
    if (!affords(lock->queue.positions.length)) {
        return;
    }
    const char *fault = lockFault(lock);
    if (!fault) {
        fault = positionsFault(holds, lock);
    }
    int64_t watched_ms = blockingkeyWatchedAt(&lock->key);
    bool late = watched_ms > look_ms && watched_ms > holds->now_ms;
    if (!fault && look_ms != INT64_MAX && late) {
        fault = "no look at the lock is set, or one that is too late";
    }
    if (fault) {
        fail(holds, lock, fault);
    }
}

/* ---- keys ---- */

struct rivals {
    const struct request *wants;
    RedisModuleString *found;
    int64_t permits; /* of all holders */
};

static void findRival(const struct holder *holder, void *data) {
    struct rivals *rivals = data;
    if (RedisModule_StringCompare(holder->owner, rivals->wants->owner) != 0 &&
        rulesConflict(holder->mode, rivals->wants->lock.mode)) {
        rivals->found = holder->owner;
    }
    rivals->permits += holder->mode == MODE_SEMAPHORE ? holder->count : 0;
}

void lockcheckAfterGrant(struct holds *holds, const struct request *wants) {
    struct rivals rivals = {.wants = wants};
    if (holdsFieldCount(holds) <= MOST_HOLDERS) {
        holdsEach(holds, findRival, &rivals);
    }
    if (rivals.found) {
        fail(holds, NULL, "two owners hold a lock in modes that conflict");
    }
    if (wants->lock.mode == MODE_SEMAPHORE && rivals.permits > wants->lock.permits.limit) {
        fail(holds, NULL, "more permits are taken than the limit");
    }
}

/* ---- features in use ---- */

/* A count that is too low lets a command pass by a feature; one that is too high is only slower. */
static void checkFeatures(void) {
    RedisModule_Assert(featuresCount(FEATURE_WAITERS) == contendedCount());
    RedisModule_Assert(featuresCount(FEATURE_CANCELLATIONS) == cancelledCount());
    RedisModule_Assert(featuresCount(FEATURE_PENDING_REPLIES) == pendingreplyCount());
    RedisModule_Assert(featuresCount(FEATURE_SESSIONS) == sessionsCount());
    size_t all = 0;
    for (int feature = 0; feature < FEATURE_COUNT; feature++) {
        all += featuresCount((enum feature)feature);
    }
    RedisModule_Assert(featuresInUse() == (all > 0));
}

/* ---- memory that nobody needs ---- */

void lockcheckAfterDrain(void) {
    bool used = contendedCount() > 0 || blockedCount() > 0 || blockedAnswersInFlight() > 0 ||
                pendingreplyCount() > 0 || sessionsCount() > 0 || queuesKeepMemory() ||
                tallyCount() > 0 || cancelledCount() > 0;
    size_t kept = (fenceKeepsMemory() ? 1 : 0) + toplocksMemory() + timerMemory() +
                  unconfirmedrecordsMemory();
    RedisModule_Assert(used || memLive() == kept);
    checkFeatures();
}
