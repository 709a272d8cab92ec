/* What the server that has loaded the module can do, whether it accepts writes now, and whether a
 * client may be blocked now.
 *
 * This is the only file that depends on server versions. The comment of each function names the
 * problem of the module API that the function avoids.
 */
#ifndef LOCK_SERVER_H
#define LOCK_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

/* Determines what does not change while the server runs. To be called once, at load. */
void serverLearn(RedisModuleCtx *ctx);

/* Whether the module can support CLIENT UNBLOCK. It can on Redis 7.4 and later, and on Valkey 8 and
 * later. Older servers hang or crash if the timeout callback of a client is called in the
 * event-loop iteration in which the module unblocks the client. */
bool serverCanUnblockByCommand(void);

/* Whether the server runs in cluster mode. */
bool serverIsCluster(void);

/* Whether the client of this command may be blocked. It must not be in MULTI, a script, a call from
 * another module, or the replay of an AOF, because RedisModule_BlockClient would reply with an
 * error and leak its handle. Nor on a replica with replica-read-only no, because nothing is granted
 * there outside a command. */
bool serverMayBlock(RedisModuleCtx *ctx);

/* The id of the connection that sent this command. 0 in a script and in a call from another module,
 * because the module is not notified when such a connection closes. Also 0 on a replica, which
 * renews and releases nothing. */
unsigned long long serverConnectionOf(RedisModuleCtx *ctx);

/* Bytes that are valid during the call only. */
struct serverText {
    const char *bytes;
    size_t length;
};

/* Calls `receive` with the name of the last command that this client has sent, as in CLIENT LIST.
 * If there is no such client, does not call it. Returns false if the server refuses CLIENT LIST.
 * Costs some µs, and is counted as a CLIENT LIST in commandstats. */
bool serverLastCommand(RedisModuleCtx *ctx, unsigned long long client_id,
                       void (*receive)(const struct serverText *name, void *data), void *data);

/* The unix time in ms by which the module decides what has expired, and from which it counts
 * leases. It is not earlier than the time by which the server decides, during the same command or
 * callback, whether a key has expired. The wall clock may be earlier, if it has been set back
 * since. Then a key that the module writes would have expired for the server at once; and Redis 8.6
 * deletes such a key in RedisModule_SignalModifiedKey, although the module has an open handle of
 * it. */
static inline int64_t serverNow(void) {
    int64_t now_ms = RedisModule_Milliseconds();
    /* Redis 7.0 does not have this function, and reads the clock again for each key. */
    int64_t server_ms =
        RedisModule_CachedMicroseconds ? RedisModule_CachedMicroseconds() / 1000 : now_ms;
    return now_ms > server_ms ? now_ms : server_ms;
}

/* The unix time in µs. On older servers the only wall clock of the module API is
 * RedisModule_Milliseconds, which has a resolution of a ms. */
int64_t serverMicroseconds(void);

enum serverWritable {
    SERVER_WRITABLE,
    /* The server is loading, or clients are paused. The caller must try again, because no event
     * reports the end of this state. */
    SERVER_WRITABLE_LATER,
    SERVER_IS_REPLICA /* only the master writes keys */
};

/* Whether a write outside a client's own command is possible now. While clients are paused (CLIENT
 * PAUSE, FAILOVER, SHUTDOWN), such a write would abort the server. */
enum serverWritable serverWritableNow(RedisModuleCtx *ctx);

enum serverPermission {
    SERVER_ACCEPTS, /* a client could write this key now */
    SERVER_REFUSES, /* a client could not: MISCONF, NOREPLICAS, or the cluster is down */
    SERVER_NOT_OURS /* another node serves the key's slot, or the key is being moved there */
};

#ifdef CHECKED
/* If it is set and returns true, serverMayWriteKey returns SERVER_REFUSES. For tests. */
extern bool (*server_refuses)(void);
#endif

/* What the server would reply if a client wrote to the lock `name` in the selected database now. To
 * be called before a grant outside a client's command, because the low-level functions for keys do
 * not check this. Changes nothing. On Redis from 7.2 and Valkey from 8 this is not visible to
 * clients; on Redis 7.0 MONITOR and INFO commandstats show a PEXPIREAT. Costs about 1 µs. */
enum serverPermission serverMayWriteKey(RedisModuleCtx *ctx, RedisModuleString *name);

/* In a cluster: whether this node would accept a command that reads all these keys now. False if
 * the keys hash to different slots, if another node serves their slot, or if the slot is being
 * moved by MIGRATE, one key at a time, and one of the keys is not here. Visible to clients as
 * described at serverMayWriteKey, with an EXISTS on Redis 7.0. Costs about 1 µs. */
bool serverHasKeys(RedisModuleCtx *ctx, RedisModuleString **names, size_t count);

/* In a cluster: whether the slot of these two names is stable. It is not stable while it is being
 * moved by MIGRATE, one key at a time, because another node may have or get some of its keys.
 * `nothing` and `nobody` must be two names in one slot for which no key exists. Visibility and cost
 * are as for serverHasKeys. */
bool serverSlotIsStable(RedisModuleCtx *ctx, RedisModuleString *nothing, RedisModuleString *nobody);

#endif
