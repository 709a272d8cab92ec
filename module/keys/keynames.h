/* The names of a lock's side keys, and how any key of the module is opened.
 *
 * A *side key* is a key that the module keeps for a lock next to the lock's own key: its last
 * token, its fair queue, its leases. The name of a side key is a prefix and the name of the lock.
 * In a cluster both keys must be in the same slot. So if the lock's name has no hash tag, it is put
 * in braces in the name of the side key, which makes it the hash tag.
 */
#ifndef LOCK_KEYNAMES_H
#define LOCK_KEYNAMES_H

#include <stdbool.h>

#include "common/failpoint.h"
#include "redismodule.h"

/* A key that is opened with KEY_TO_READ is not changed, so this is allowed on replicas too. */
enum keyAccess { KEY_TO_READ, KEY_TO_WRITE };

/* Opens the key in the selected database. With KEY_TO_READ, returns NULL if the key does not exist.
 * With KEY_TO_WRITE, returns NULL if the key is in use (see keynamesIsInUse). To be closed with
 * RedisModule_CloseKey, which accepts NULL too. */
static inline RedisModuleKey *keynamesOpen(RedisModuleCtx *ctx, RedisModuleString *name,
                                           enum keyAccess access) {
    if (access == KEY_TO_READ) {
        return RedisModule_OpenKey(ctx, name, REDISMODULE_READ);
    }
    return failpointKeyIsInUse(ctx, name)
               ? NULL
               : RedisModule_OpenKey(ctx, name, REDISMODULE_READ | REDISMODULE_WRITE);
}

/* Whether the key for which keynamesOpen has returned `key` is in use. The server uses a key while
 * it writes the key to a snapshot in the background without a fork (Valkey 9.2). It allows no
 * writes to the key meanwhile. The content of a key in use is unknown; the caller must not treat
 * the key as one that does not exist.
 *
 * A step (a command, a grant pass, a release) first opens all keys that it writes to, and changes
 * nothing if one of them is in use. If a key could be opened, it can be opened again until the step
 * ends, because the server starts to use keys only in the thread in which the module runs, and not
 * while the module runs. */
static inline bool keynamesIsInUse(const RedisModuleKey *key, enum keyAccess access) {
    return !key && access == KEY_TO_WRITE;
}

/* As keynamesOpen, for the side key `side` of the lock `name`. With either access, also returns
 * NULL if the side keys of this lock cannot be in its slot (see keynamesServeCluster), because a
 * command must not open a key of another slot. */
RedisModuleKey *keynamesOpenSide(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *side, enum keyAccess access);

/* As keynamesIsInUse, for what keynamesOpenSide has returned for a side key of the lock `name`. */
bool keynamesSideIsInUse(RedisModuleString *name, const RedisModuleKey *side,
                         enum keyAccess access);

/* How the names of leases begin. */
#define KEYNAMES_LEASES "lock:lease:"

/* The name of a side key: `prefix` and the lock's name, in braces if it has no hash tag. A new
 * string, to be freed with RedisModule_FreeString. */
RedisModuleString *keynamesSide(RedisModuleCtx *ctx, const char *prefix, RedisModuleString *name);

/* Whether the side keys of this lock can be in its slot. They cannot be for the empty name, and for
 * a name that has no hash tag and contains a `}`: the hash tag of `{a}b}` is `a`, not `a}b`. This
 * matters only in a cluster. */
bool keynamesServeCluster(RedisModuleString *name);

/* Whether the side keys of this lock are on this node and on no other. In a cluster, to be called
 * before a side key is used. While a slot is moved by MIGRATE, its keys are moved one by one, so a
 * side key that is missing here may be on the other node. If the module created it here, the key
 * would exist on both nodes, and the move would stop.
 *
 * Returns true without a check if there is no cluster, or if the lock can have no side keys. The
 * check costs about 1.5 µs. */
bool keynamesSidesAreHere(RedisModuleCtx *ctx, RedisModuleString *name);

#endif
