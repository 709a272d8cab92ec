/* See events.h. */
#include "ledger/events.h"

#include <stdbool.h>
#include <stddef.h>

#include "blocking/blocked.h"
#include "blocking/blockingkey.h"
#include "common/propagate.h"
#include "common/quarantine.h"
#include "common/replicas.h"
#include "delay/queues.h"
#include "delay/scan.h"
#include "delay/slotwatch.h"
#include "keys/fairqueue.h"
#include "keys/fence.h"
#include "keys/tally.h"
#include "ledger/ledger.h"
#include "ledger/sessions.h"
#include "server/server.h"
#include "server/timer.h"
#include "waits/contended.h"

static bool watches_keys, watches_clients, watches_delays, watches_flushes;
static bool watches_strings, watches_overwrites, watches_clock, watches_replicas;
static bool shuts_down;

/* Any event on a key that clients wait for makes it due. Which event it was says little about what
 * the key contains when the drain checks it. Anything the module remembers about the key may be
 * wrong now. */
static int onKeyEvent(RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *key) {
    (void)event;
    unsigned expired = type == REDISMODULE_NOTIFY_EXPIRED ? BLOCKINGKEY_EXPIRED : 0U;
    ledgerKeyChanged(ctx, key, BLOCKINGKEY_EDITED | expired);
    return REDISMODULE_OK;
}

static int onDelayEvent(RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *key) {
    (void)type, (void)event;
    queuesKeyChanged(ctx, RedisModule_GetSelectedDb(ctx), key);
    return REDISMODULE_OK;
}

static void onCron(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
    (void)event, (void)subevent;
    const RedisModuleCronLoop *cron = data;
    if (timerCron(ctx)) {
        queuesClockStepped(ctx);
        contendedClockStepped(ctx);
    }
    quarantineCron(ctx, cron->hz);
}

static void onFlush(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
    (void)event;
    const RedisModuleFlushInfo *flush = data;
    if (subevent == REDISMODULE_SUBEVENT_FLUSHDB_END) {
        ledgerFlushed(ctx, flush->dbnum);
        queuesForgetAll(ctx, flush->dbnum);
    }
}

static void onSwap(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
    (void)event;
    (void)subevent;
    const RedisModuleSwapDbInfo *swap = data;
    scanSwapped(ctx);
    fenceSwapped(swap->dbnum_first, swap->dbnum_second);
    queuesSwapped(swap->dbnum_first, swap->dbnum_second);
    ledgerSwapped(ctx, swap->dbnum_first, swap->dbnum_second);
}

static void eventsRestart(RedisModuleCtx *ctx) {
    quarantineBegin(ctx);
    propagateListenersMayHaveChanged();
    replicasMayHaveChanged();
    tallyForgetAll();
    fairqueueRestarted(serverNow());
    fenceRestarted();
}

static void onLoad(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
    (void)event;
    (void)subevent;
    (void)data;
    eventsRestart(ctx);
    queuesForgetAll(ctx, -1);
    scanBegin(ctx);
    ledgerLoaded(ctx);
}

/* When the server becomes a replica, the holds are the master's: even if it is promoted again
 * before the next renewals, none of them belongs to a session here. (A server that becomes a master
 * has no sessions.) All locks become due, so that the drain removes their positions; or, if the
 * server is a master again by then, checks them as after any edit, although no client waits
 * there. */
static void onRole(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
    (void)event;
    (void)data;
    if (subevent == REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA) {
        ledgerBecameReplica(ctx);
        blockedEndAll(ctx);
    }
    scanBegin(ctx); /* on a replica the drain ends it, and forgets the queues */
    slotwatchBegin(ctx);
    eventsRestart(ctx);
    blockingkeyNoteAll(ctx, BLOCKINGKEY_EVERY_DB, BLOCKINGKEY_EDITED);
}

static void onListener(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
    (void)ctx;
    (void)event;
    (void)subevent;
    (void)data;
    propagateListenersMayHaveChanged();
}

/* The last event before a server exits. */
static void onShutdown(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
    (void)ctx;
    (void)event;
    (void)subevent;
    (void)data;
    shuts_down = true;
}

bool eventsServerShutsDown(void) {
    return shuts_down;
}

struct subscription {
    RedisModuleEvent event;
    RedisModuleEventCallback callback;
};

static int eventsSubscribeAll(RedisModuleCtx *ctx, const struct subscription *subscriptions,
                              size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (RedisModule_SubscribeToServerEvent(ctx, subscriptions[i].event,
                                               subscriptions[i].callback) != REDISMODULE_OK) {
            return REDISMODULE_ERR;
        }
    }
    return REDISMODULE_OK;
}

/* For subscriptions that are made when they are first needed, inside a command. The command cannot
 * go on without them, because locks would be lost unnoticed, and cannot be refused either. A server
 * refuses only an event that it does not know, and Redis 7.0 knows all of these. */
static void subscribeSurely(RedisModuleCtx *ctx, const struct subscription *subscriptions,
                            size_t count) {
    RedisModule_Assert(eventsSubscribeAll(ctx, subscriptions, count) == REDISMODULE_OK);
}

static void onClientChange(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent,
                           void *data) {
    (void)event;
    const RedisModuleClientInfo *client = data;
    if (subevent == REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED) {
        sessionsClientGone(ctx, client->id);
    }
}

/* For all keys that clients wait for, for delayed queues and for sessions. */
static void watchFlushes(RedisModuleCtx *ctx) {
    const struct subscription flushes[] = {{RedisModuleEvent_FlushDB, onFlush}};
    if (!watches_flushes) {
        subscribeSurely(ctx, flushes, 1);
        watches_flushes = true;
    }
}

void eventsWatchClients(RedisModuleCtx *ctx) {
    const struct subscription clients[] = {{RedisModuleEvent_ClientChange, onClientChange}};
    if (!watches_clients) {
        subscribeSurely(ctx, clients, 1);
        watchFlushes(ctx);
        watches_clients = true;
    }
}

int eventsSubscribe(RedisModuleCtx *ctx) {
    /* As few as possible: the server goes through all subscriptions twice in each event-loop
     * iteration. */
    const struct subscription always[] = {
        {RedisModuleEvent_Loading, onLoad},       {RedisModuleEvent_ReplicationRoleChanged, onRole},
        {RedisModuleEvent_ForkChild, onListener}, {RedisModuleEvent_SwapDB, onSwap},
        {RedisModuleEvent_Shutdown, onShutdown},
    };
    watches_keys = watches_clients = false;
    watches_delays = watches_flushes = false;
    watches_strings = watches_overwrites = watches_clock = watches_replicas = false;
    return eventsSubscribeAll(ctx, always, sizeof(always) / sizeof(always[0]));
}

void eventsWatchClock(RedisModuleCtx *ctx) {
    const struct subscription cron[] = {{RedisModuleEvent_CronLoop, onCron}};
    if (!watches_clock) {
        subscribeSurely(ctx, cron, 1);
        watches_clock = true;
    }
}

static void onReplica(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
    (void)ctx, (void)event, (void)subevent, (void)data;
    replicasMayHaveChanged();
}

void eventsWatchReplicas(RedisModuleCtx *ctx) {
    const struct subscription replicas[] = {{RedisModuleEvent_ReplicaChange, onReplica}};
    if (!watches_replicas) {
        subscribeSurely(ctx, replicas, 1);
        watches_replicas = true;
    }
}

static void watchKeysSurely(RedisModuleCtx *ctx, int classes,
                            RedisModuleNotificationFunc callback) {
    RedisModule_Assert(RedisModule_SubscribeToKeyspaceEvents(ctx, classes, callback) ==
                       REDISMODULE_OK);
}

void eventsWatchKeys(RedisModuleCtx *ctx) {
    /* HASH, because an HDEL by another client can free a lock. */
    const int classes = REDISMODULE_NOTIFY_GENERIC | REDISMODULE_NOTIFY_EXPIRED |
                        REDISMODULE_NOTIFY_EVICTED | REDISMODULE_NOTIFY_HASH;
    watchFlushes(ctx);
    if (!watches_keys) {
        watchKeysSurely(ctx, classes, onKeyEvent);
        watches_keys = true;
    }
}

void eventsWatchStrings(RedisModuleCtx *ctx) {
    if (!watches_strings) {
        watchKeysSurely(ctx, REDISMODULE_NOTIFY_STRING, onKeyEvent);
        watches_strings = true;
    }
}

void eventsWatchOverwrites(RedisModuleCtx *ctx) {
    /* The events of SORT … STORE, SINTERSTORE, ZUNIONSTORE, GEOSEARCHSTORE and similar commands. */
    const int classes = REDISMODULE_NOTIFY_LIST | REDISMODULE_NOTIFY_SET | REDISMODULE_NOTIFY_ZSET;
    eventsWatchStrings(ctx);
    if (!watches_overwrites) {
        watchKeysSurely(ctx, classes, onKeyEvent);
        watches_overwrites = true;
    }
}

void eventsWatchDelays(RedisModuleCtx *ctx) {
    /* HASH and ZSET, because another client may write values or times directly. */
    const int classes = REDISMODULE_NOTIFY_GENERIC | REDISMODULE_NOTIFY_EXPIRED |
                        REDISMODULE_NOTIFY_EVICTED | REDISMODULE_NOTIFY_HASH |
                        REDISMODULE_NOTIFY_ZSET;
    watchFlushes(ctx);
    eventsWatchClock(ctx);
    if (!watches_delays) {
        watchKeysSurely(ctx, classes, onDelayEvent);
        watches_delays = true;
        scanBegin(ctx); /* earlier events were missed; restarts a scan that has just begun */
    }
}
