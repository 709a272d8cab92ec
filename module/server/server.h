/* What the server that has loaded the module can do, and whether it may be written to, or block a
 * client, right now.
 *
 * This is the only file that knows server versions. Each function says which trap of the module API
 * it avoids.
 */
#ifndef LOCK_SERVER_H
#define LOCK_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

/* Determines what does not change while the server runs. To be called once, at load. */
void serverLearn(RedisModuleCtx *ctx);

/* Whether the module API can support CLIENT UNBLOCK: Redis 7.4 and later, Valkey 8 and later. On
 * older servers a timeout callback in the same iteration of the event loop as an unblocking hangs
 * or crashes the server. */
bool serverCanUnblockByCommand(void);

/* Whether the server runs in cluster mode. */
bool serverIsCluster(void);

/* Whether the client of this command may be blocked. Not in MULTI, a script, a call from another
 * module, or the replay of an AOF: there RedisModule_BlockClient would reply an error and leak its
 * handle. Nor on a replica, to which clients can write only with replica-read-only no: there
 * nothing is granted outside a command. */
bool serverMayBlock(RedisModuleCtx *ctx);

/* The id of the connection that sent this command; 0 if there is none whose end the module is
 * notified of: in a script, or in a call from a module. Also 0 on a replica, which renews and
 * releases nothing. */
unsigned long long serverConnectionOf(RedisModuleCtx *ctx);

/* Borrowed bytes, valid during a call. */
struct serverText {
    const char *bytes;
    size_t length;
};

/* Calls `receive` with the name of the last command that this client has sent, as in CLIENT LIST;
 * not at all if there is no such client. Returns false if the server refuses CLIENT LIST. Costs
 * some µs, and counts as a CLIENT LIST in commandstats. */
bool serverLastCommand(RedisModuleCtx *ctx, unsigned long long client_id,
                       void (*receive)(const struct serverText *name, void *data), void *data);

/* The unix time in µs. RedisModule_Milliseconds is exact to the ms only, and older servers give
 * modules no other wall clock. */
int64_t serverMicroseconds(void);

enum serverWritable {
    SERVER_WRITABLE,
    /* The server is loading, or clients are paused. No event reports the end of that: to be tried
     * again. */
    SERVER_WRITABLE_LATER,
    SERVER_IS_REPLICA /* only the master writes keys */
};

/* Whether a write outside a client's own command is possible at all. While clients are paused
 * (CLIENT PAUSE, FAILOVER, SHUTDOWN) such a write aborts the server. */
enum serverWritable serverWritableNow(RedisModuleCtx *ctx);

enum serverPermission {
    SERVER_ACCEPTS, /* a client could write this key now */
    SERVER_REFUSES, /* not now: MISCONF, NOREPLICAS, a cluster that is down */
    SERVER_NOT_OURS /* another node serves the key's slot, or the key is being moved there */
};

/* What the server would reply if a client wrote to the lock `name` in the selected database now.
 * Low-level key calls check nothing of this, so a grant outside a client's command calls this
 * first. It changes nothing. On Redis from 7.2 and Valkey from 8 it leaves no trace; on 7.0 MONITOR
 * and INFO commandstats show a PEXPIREAT. Costs about 1 µs. */
enum serverPermission serverMayWriteKey(RedisModuleCtx *ctx, RedisModuleString *name);

/* In a cluster: whether a client could send one command that reads all these keys to this node now.
 * False if they hash to different slots; if another node serves their slot; or if that is being
 * moved, by MIGRATE one key at a time, and one of them is not here. Leaves traces as
 * serverMayWriteKey does; on 7.0 an EXISTS. Costs about 1 µs. */
bool serverHasKeys(RedisModuleCtx *ctx, RedisModuleString **names, size_t count);

/* In a cluster: whether the slot of these two names is stable: it is not being moved by MIGRATE,
 * one key at a time, so that another node could have or get some of its keys. `nothing` and
 * `nobody` are different names in one slot that no key has. Leaves traces and costs as
 * serverHasKeys does. */
bool serverSlotIsStable(RedisModuleCtx *ctx, RedisModuleString *nothing, RedisModuleString *nobody);

#endif
