/* Loading. */
#define REDISMODULE_MAIN
#include "redismodule.h"

#include <stdbool.h>
#include <stdint.h>

#include "commands/commands.h"
#include "commands/infosection.h"
#include "core/hashmap.h"
#include "grant/drain.h"
#include "grant/sessionwork.h"
#include "keys/fairqueue.h"
#include "keys/fence.h"
#include "server/alarm.h"
#include "server/config.h"
#include "server/server.h"
#include "waits/events.h"
#include "waits/sessions.h"

#define MODULE_NAME "lock"
#define MODULE_VERSION 1

static void seedHashes(void) {
    uint64_t seed[2];
    RedisModule_GetRandomBytes((unsigned char *)seed, sizeof(seed));
    mapSeed(seed);
}

/* Without the first the server would mark every key that we look at as changed, and abort the
 * transactions that WATCH it; without the second it would give up loading a replica's data beside
 * the old. The third lets Valkey 9 move slots. */
static const int module_options = REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED |
                                  REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD |
                                  VALKEY9_OPTION_HANDLE_ATOMIC_SLOT_MIGRATION;

int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    (void)argv;
    if (RedisModule_Init(ctx, MODULE_NAME, MODULE_VERSION, REDISMODULE_APIVER_1) !=
        REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    if (argc > 0) {
        RedisModule_Log(ctx, REDISMODULE_LOGLEVEL_WARNING,
                        "takes no arguments: set lock.* in redis.conf or by MODULE LOADEX CONFIG");
        return REDISMODULE_ERR;
    }
    RedisModule_SetModuleOptions(ctx, module_options);
    serverLearn(ctx);
    seedHashes();
    alarmConnect(drainRun);
    sessionsConnect(sessionworkRun);
    fairqueueRestarted(RedisModule_Milliseconds());
    fenceRestarted();
    if (configLoad(ctx) != REDISMODULE_OK || commandsRegister(ctx) != REDISMODULE_OK ||
        infosectionRegister(ctx) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    return eventsSubscribe(ctx);
}

/* The server looks this name up too, but its header does not have it. MODULE UNLOAD asks here when
 * nothing that the server knows of is in the way. */
__attribute__((visibility("default"))) int RedisModule_OnUnload(RedisModuleCtx *ctx);

/* Servers keep pointers to the commands of a module that is gone, whichever it is: in the queues of
 * MULTI, with each client its last command. To follow one is to crash. Nobody is told the reason but
 * by the log: there is no client to answer here. */
static bool unloadIsAllowed(RedisModuleCtx *ctx) {
    if (!configAllowUnload()) {
        RedisModule_Log(ctx, REDISMODULE_LOGLEVEL_WARNING,
                        "MODULE UNLOAD is refused: a server may crash when the commands of a "
                        "module go. To upgrade, put the new file beside the old one, let "
                        "loadmodule name it, and restart, or fail over to a replica that runs it. "
                        "Should it be unloaded all the same: CONFIG SET lock.allow-unload yes");
    }
    return configAllowUnload();
}

int RedisModule_OnUnload(RedisModuleCtx *ctx) {
    return unloadIsAllowed(ctx) && alarmIsQuiet() ? REDISMODULE_OK : REDISMODULE_ERR;
}
