/* Loading and unloading, and the connections between files that call each other back: the drain's
 * jobs, the grant pass, the release of sessions. */
#define REDISMODULE_MAIN
#include "redismodule.h"

#include <stdbool.h>
#include <stdint.h>

#include "blocking/blockingkey.h"
#include "blocking/drain.h"
#include "blocking/nullreplies.h"
#include "commands/commands.h"
#include "common/config.h"
#include "common/quarantine.h"
#include "core/hashmap.h"
#include "delay/deliver.h"
#include "delay/queues.h"
#include "delay/scan.h"
#include "delay/slotwatch.h"
#include "grant/lockcheck.h"
#include "grant/pass.h"
#include "grant/release.h"
#include "keys/fairqueue.h"
#include "keys/fence.h"
#include "keys/holds.h"
#include "keys/tally.h"
#include "ledger/acks.h"
#include "ledger/events.h"
#include "ledger/sessions.h"
#include "ledger/unconfirmed.h"
#include "observing/toplocks.h"
#include "queue/cancelled.h"
#include "queue/deadlock.h"
#include "server/keycheck.h"
#include "server/server.h"
#include "server/timer.h"
#include "waits/contended.h"

#define MODULE_NAME "lock"

static void seedHashes(void) {
    uint64_t seed[2];
    RedisModule_GetRandomBytes((unsigned char *)seed, sizeof(seed));
    mapSeed(seed);
}

/* Without the first option the server would mark every key that the module reads as changed, and
 * abort the transactions that WATCH it. Without the second it would not load a replica's data while
 * the old data is still served. The third lets Valkey 9 move slots. */
static const int module_options = REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED |
                                  REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD |
                                  VALKEY9_OPTION_HANDLE_ATOMIC_SLOT_MIGRATION;

static const struct drainJob drain_jobs[DRAIN_WORK_COUNT] = {
    [DRAIN_LOST_HOLDS] = {releaseLost, releaseForgetLost, NULL},
    [DRAIN_REFUSED_ACKS] = {releaseRefused, NULL, acksHold},
    [DRAIN_KEYS] = {blockingkeyWorkDue, blockingkeyForgetDue, NULL},
    [DRAIN_CANCELLATIONS] = {cancelledGoOn, cancelledForget, cancelledGoOn},
    [DRAIN_CYCLES] = {deadlockSearch, deadlockForget, deadlockHold},
    [DRAIN_DELAYED_QUEUES] = {deliverDue, NULL, deliverHold},
    [DRAIN_SCAN] = {scanGoOn, scanForget, NULL},
    [DRAIN_ACKS_END] = {acksRest, acksForget, NULL},
    [DRAIN_CHANGED_GRANTS] = {unconfirmedLookAtDue, NULL, NULL},
    [DRAIN_NULL_REPLIES] = {nullrepliesGoOn, NULL, nullrepliesGoOn},
};

static void onQuarantineEnd(RedisModuleCtx *ctx) {
    fairqueueQuarantineEnded(serverNow());
    deadlockQuarantineEnded(ctx);
    contendedQuarantineEnded(ctx);
}

static const struct configCalls config_calls = {quarantineConfigured, sessionsConfigured,
                                                contendedReservesConfigured};

static const struct quarantineCalls quarantine_calls = {eventsWatchClock, onQuarantineEnd};

static void connect(void) {
    drainConnect(drain_jobs, lockcheckAfterDrain);
    contendedConnect(&pass_work);
    sessionsConnect(releaseSession);
    configConnect(&config_calls);
    quarantineConnect(&quarantine_calls);
    queuesConnect(eventsWatchDelays);
    tallyConnect(eventsWatchKeys);
    timerConnect(eventsWatchClock, drainRun);
}

int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    (void)argv;
    if (RedisModule_Init(ctx, MODULE_NAME, LOCK_VERSION_NUMBER, REDISMODULE_APIVER_1) !=
        REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    if (argc > 0) {
        RedisModule_Log(ctx, REDISMODULE_LOGLEVEL_WARNING,
                        "takes no arguments: set lock.* in redis.conf or by MODULE LOADEX CONFIG");
        return REDISMODULE_ERR;
    }
    keycheckBegin();
    RedisModule_SetModuleOptions(ctx, module_options);
    serverLearn(ctx);
    seedHashes();
    connect();
    fairqueueRestarted(serverNow());
    fenceRestarted();
    if (configLoad(ctx) != REDISMODULE_OK || commandsRegister(ctx) != REDISMODULE_OK ||
        infoRegister(ctx) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    if (eventsSubscribe(ctx) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    holdsBegin();
    scanBegin(ctx); /* the server may have keys already */
    slotwatchBegin(ctx);
    /* There is no event for a start without data, nor for what a running server has loaded
     * before. */
    quarantineBegin(ctx);
    return REDISMODULE_OK;
}

/* The server looks up this name too, but its header does not declare it. MODULE UNLOAD calls it
 * when nothing that the server knows of prevents unloading. */
__attribute__((visibility("default"))) int RedisModule_OnUnload(RedisModuleCtx *ctx);

/* Servers keep pointers to the commands of any module that has been unloaded: in the queues of
 * MULTI, and as the last command of each client. Following one crashes the server. The reason for a
 * refusal is only in the log, because there is no client to reply to here. */
static bool unloadIsAllowed(RedisModuleCtx *ctx) {
    if (!configAllowUnload()) {
        RedisModule_Log(ctx, REDISMODULE_LOGLEVEL_WARNING,
                        "MODULE UNLOAD is refused: a server may crash when the commands of a "
                        "module go. To upgrade, put the new file next to the old one, let "
                        "loadmodule name it, and restart, or fail over to a replica that runs it. "
                        "Should it be unloaded all the same: CONFIG SET lock.allow-unload yes");
    }
    return configAllowUnload();
}

/* Valkey 9.1 unloads all modules as the last step before it exits: then unloading is safe. */
int RedisModule_OnUnload(RedisModuleCtx *ctx) {
    bool is_safe =
        eventsServerShutsDown() || (unloadIsAllowed(ctx) && drainIsQuiet() && timerIsQuiet());
    if (!is_safe) {
        return REDISMODULE_ERR;
    }
    tallyForgetAll();
    holdsFree();
    toplocksFree();
    unconfirmedFlushed(UNCONFIRMED_EVERY_DB);
    return REDISMODULE_OK;
}
