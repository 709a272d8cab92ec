/* See drain.h. */
#include "grant/drain.h"

#include <stdbool.h>
#include <stddef.h>

#include "grant/grant.h"
#include "grant/lockcheck.h"
#include "grant/pass.h"
#include "grant/redirect.h"
#include "server/alarm.h"
#include "server/failpoint.h"
#include "server/server.h"
#include "server/turn.h"
#include "waits/contended.h"
#include "waits/deadlock.h"
#include "waits/inflight.h"
#include "waits/waiters.h"

/* Nothing announces the end of a pause, of a load or of a refusal: we ask again after this long. */
#define RETRY_MS 20

static enum releaseWhich whichOf(enum lockMode mode) {
    switch (mode) {
    case MODE_READ:
        return RELEASE_READ;
    case MODE_WRITE:
        return RELEASE_WRITE;
    case MODE_EXCLUSIVE:
    case MODE_COUNT:
        break;
    }
    return RELEASE_ONLY_MODE;
}

/* First off the record: the lock may go on to another wait of the same owner, which takes it anew. */
static void releaseHolds(RedisModuleCtx *ctx, struct inflight *lost, size_t index, int64_t now_ms) {
    struct grantOutcome outcome = {0};
    RedisModuleString *name = inflightTakeName(lost, index);
    grantRelease(ctx, name, lost->owner, whichOf(lost->mode), now_ms, &outcome);
    RedisModule_FreeString(NULL, name);
}

/* Returns false if the server would refuse the write now. */
static bool releaseOrPostpone(RedisModuleCtx *ctx, struct inflight *lost, size_t index,
                              int64_t now_ms) {
    switch (serverConsentTo(ctx, lost->names[index])) {
    case SERVER_ACCEPTS:
        releaseHolds(ctx, lost, index, now_ms);
        return true;
    case SERVER_NOT_OURS:
        return true;
    case SERVER_REFUSES:
        break;
    }
    return false;
}

enum releaseProgress { RELEASE_DONE, RELEASE_CUT, RELEASE_REFUSED };

/* Of a grant of several locks, those that have been released are off its record. */
static enum releaseProgress releaseAll(RedisModuleCtx *ctx, struct inflight *lost, int64_t now_ms) {
    RedisModule_SelectDb(ctx, lost->db);
    for (size_t i = 0; i < lost->name_count; i++) {
        if (lost->names[i] && !releaseOrPostpone(ctx, lost, i, now_ms)) {
            return RELEASE_REFUSED;
        }
        /* Unseen: after the last one it would cost a turn more, and nothing else. */
        if (turnIsOver() && i + 1 < lost->name_count) {
            return RELEASE_CUT;
        }
    }
    inflightFree(lost);
    return RELEASE_DONE;
}

/* Clients died between the grant and their answer: their holds are released, and handed on (rule 5). */
static void releaseLostGrants(RedisModuleCtx *ctx, int64_t now_ms) {
    enum releaseProgress progress = RELEASE_DONE;
    struct inflight *lost;
    while (progress == RELEASE_DONE && (lost = inflightFirstLost()) && !turnIsOver()) {
        progress = releaseAll(ctx, lost, now_ms);
    }
    if (inflightFirstLost()) {
        alarmSet(ctx, progress == RELEASE_REFUSED ? RETRY_MS : 0);
    }
}

/* On a replica they are the master's business. */
static void forgetLostGrants(void) {
    struct inflight *lost;
    while ((lost = inflightFirstLost())) {
        inflightFree(lost);
    }
}

/* Returns whether the lock could be looked at; if not it is still due. */
static bool passOrPostpone(RedisModuleCtx *ctx, struct lock *lock, int64_t now_ms) {
    RedisModule_SelectDb(ctx, lock->db);
    (void)failpoint(FAILPOINT_DRAIN_LOCK);
    switch (serverConsentTo(ctx, lock->name)) {
    case SERVER_ACCEPTS:
        passRun(ctx, lock, now_ms);
        return true;
    case SERVER_NOT_OURS:
        redirectWaiters(ctx, lock);
        return true;
    case SERVER_REFUSES:
        break;
    }
    return false;
}

static void workDueLocks(RedisModuleCtx *ctx, int64_t now_ms) {
    struct lock *lock;
    while ((lock = contendedFirstDue()) && !turnIsOver()) {
        if (!passOrPostpone(ctx, lock, now_ms)) {
            alarmSet(ctx, RETRY_MS);
            return;
        }
    }
    if (lock) {
        alarmSet(ctx, 0);
    }
}

/* Whether its wait closes a cycle: then it ends, as one that was cancelled. */
static void searchFrom(RedisModuleCtx *ctx, struct waiter *newcomer, int64_t now_ms) {
    RedisModule_SelectDb(ctx, newcomer->db);
    RedisModuleString *cycle = deadlockFind(ctx, newcomer, now_ms);
    RedisModule_SelectDb(ctx, newcomer->db);
    if (cycle) {
        waitersEndDeadlock(ctx, newcomer, cycle);
    } else {
        waitersSearched(newcomer);
    }
}

static void setAlarmFor(RedisModuleCtx *ctx, const struct waiter *newcomer, uint64_t now_us) {
    uint64_t at_us = newcomer->search_at_us;
    alarmSet(ctx, at_us > now_us ? (int64_t)((at_us - now_us + 999) / 1000) : 0);
}

/* In order of arrival, so that of those in a cycle it is the last that is refused. From one at least
 * in each turn, however much else there is to do. A search costs some µs as a rule, and never more
 * than some 10 ms. */
static void searchFromNewcomers(RedisModuleCtx *ctx, int64_t now_ms) {
    uint64_t now_us = RedisModule_MonotonicMicroseconds();
    bool is_over = false;
    struct waiter *newcomer;
    while ((newcomer = waitersFirstNewcomer()) && newcomer->search_at_us <= now_us && !is_over) {
        searchFrom(ctx, newcomer, now_ms);
        is_over = turnIsOverByClock();
    }
    if (newcomer) {
        setAlarmFor(ctx, newcomer, now_us);
    }
}

/* We have become a replica: whoever waited has been answered by the server, and positions that are
 * kept for owners are the master's to keep now. The new role has made every lock due. */
static void forgetWaits(RedisModuleCtx *ctx) {
    struct lock *lock;
    while ((lock = contendedFirstDue()) && !turnIsOver()) {
        waitersForgetDetached(ctx, lock);
    }
    if (lock) {
        alarmSet(ctx, 0);
    }
}

static void work(RedisModuleCtx *ctx) {
    int64_t now_ms = RedisModule_Milliseconds();
    (void)failpoint(FAILPOINT_DRAIN_BEGUN);
    switch (serverWritableNow(ctx)) {
    case SERVER_WRITABLE:
        releaseLostGrants(ctx, now_ms);
        workDueLocks(ctx, now_ms);
        /* After the passes, which may grant what a newcomer waits for. A wait that ends here makes
         * its locks due, and so sets the alarm again. */
        searchFromNewcomers(ctx, now_ms);
        break;
    case SERVER_WRITABLE_LATER:
        alarmSet(ctx, RETRY_MS);
        break;
    case SERVER_IS_REPLICA:
        forgetLostGrants();
        forgetWaits(ctx);
        break;
    }
}

void drainRun(RedisModuleCtx *ctx) {
    turnBegin();
    work(ctx);
    redirectForget();
    turnEnd();
    lockcheckAfterDrain();
}
