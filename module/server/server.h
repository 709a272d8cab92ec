/* What the server that loaded us can do, and whether it may be written to or block a client right
 * now.
 *
 * The only file that knows versions. Each answer says which trap of the module API it avoids.
 */
#ifndef LOCK_SERVER_H
#define LOCK_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

/* Finds out once, at load, what does not change while the server runs. */
void serverLearn(RedisModuleCtx *ctx);

/* Whether the module API can serve CLIENT UNBLOCK: Redis 7.4 and later, Valkey 8 and later. On
 * older ones a time-out callback in the same loop turn as an unblocking hangs or crashes the
 * server. */
bool serverCanUnblockByCommand(void);

bool serverIsCluster(void);

/* Whether the client of this command may be blocked: not in MULTI, a script, a call from another
 * module, or the replay of an AOF: there RedisModule_BlockClient would reply an error and leak its
 * handle. Nor on a replica, which clients can only write to with replica-read-only no: there nothing
 * is granted outside a command. */
bool serverMayBlock(RedisModuleCtx *ctx);

/* The id of the connection that sent this command; 0 where there is none that we would hear close:
 * in a script, in a call from a module; and on a replica, which renews and releases nothing. */
unsigned long long serverConnectionOf(RedisModuleCtx *ctx);

/* Some bytes, lent. */
struct serverText {
    const char *bytes;
    size_t length;
};

/* Tells the name of the last command that this client has sent, as CLIENT LIST has it; if there is no
 * such client, nothing. Returns false if the server will not say. Costs some µs, and counts as a
 * CLIENT LIST in commandstats. */
bool serverLastCommand(RedisModuleCtx *ctx, unsigned long long client_id,
                       void (*tell)(const struct serverText *name, void *data), void *data);

/* Unix time in µs. RedisModule_Milliseconds is as exact as its unit, and older servers have no other
 * time of day. */
int64_t serverMicroseconds(void);

enum serverWritable {
    SERVER_WRITABLE,
    SERVER_WRITABLE_LATER, /* loading, or clients are paused: nothing announces the end, ask again
                            */
    SERVER_IS_REPLICA      /* keys are the master's business */
};

/* Whether a write outside a client's own command is possible at all. While clients are paused
 * (CLIENT PAUSE, FAILOVER, SHUTDOWN) such a write aborts the server. */
enum serverWritable serverWritableNow(RedisModuleCtx *ctx);

enum serverConsent {
    SERVER_ACCEPTS, /* a client could write this key now */
    SERVER_REFUSES, /* for now: MISCONF, NOREPLICAS, a cluster that is down */
    SERVER_NOT_OURS /* the key's slot is served elsewhere, or the key is moving there */
};

/* What the server would say if a client wrote to the lock `name` in the selected database now.
 * Low-level key calls check nothing of this, so a grant outside a client's command asks first.
 * Changes nothing, and from Redis 7.2 and Valkey 8 on leaves no trace; on 7.0 MONITOR and INFO
 * commandstats show a PEXPIREAT. Costs about 1 µs. */
enum serverConsent serverConsentTo(RedisModuleCtx *ctx, RedisModuleString *name);

/* In a cluster: whether a client could send one command that reads all these keys to this node now.
 * No if they hash to different slots, if another node serves their slot, or while that moves, by
 * MIGRATE one key at a time, if one of them is not here. Leaves traces as serverConsentTo does; on 7.0
 * an EXISTS. Costs about 1 µs. */
bool serverHasKeys(RedisModuleCtx *ctx, RedisModuleString **names, size_t count);

/* In a cluster: whether no slot's move can have another node know, or get, a key of the slot of these
 * two names, by MIGRATE one key at a time. They are different names of one slot that no key has.
 * Leaves traces and costs as serverHasKeys does. */
bool serverSlotIsStable(RedisModuleCtx *ctx, RedisModuleString *nothing, RedisModuleString *nobody);

#endif
