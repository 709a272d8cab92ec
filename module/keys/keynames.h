/* The names of a lock's side keys, and how any key of the module is opened.
 *
 * A side key hashes to its lock's slot: a name with a hash tag keeps it, another is wrapped in
 * braces and so becomes the tag.
 */
#ifndef LOCK_KEYNAMES_H
#define LOCK_KEYNAMES_H

#include <stdbool.h>

#include "redismodule.h"

/* With KEY_TO_READ nothing is ever changed, so it serves on replicas too. */
enum keyAccess { KEY_TO_READ, KEY_TO_WRITE };

/* Opens the key in the selected database. NULL when it is to be read and does not exist, or when it
 * is to be written to and is in use: see keynamesIsInUse. To be closed with RedisModule_CloseKey, which
 * takes NULL too. */
RedisModuleKey *keynamesOpen(RedisModuleCtx *ctx, RedisModuleString *name, enum keyAccess access);

/* Whether a key that keynamesOpen has opened for `access` is in use: the server writes it to a
 * snapshot in the background (Valkey 9.2, without a fork), and lets nobody write to it meanwhile.
 * What is in it is not known then: it must not be taken for a key that does not exist.
 *
 * A step (a command, a grant pass, a release) first opens all keys that it writes to, and changes
 * nothing if one is in use. A key that could be opened can be opened until the step ends, as the
 * server begins to use keys on the thread on which the module runs, and not while it runs. */
static inline bool keynamesIsInUse(const RedisModuleKey *key, enum keyAccess access) {
    return !key && access == KEY_TO_WRITE;
}

/* Likewise a side key of the lock `name`. NULL also, whatever it is opened for, when the side keys of
 * this lock cannot live in its slot: another slot's key must not be opened within a command. */
RedisModuleKey *keynamesOpenSide(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *side, enum keyAccess access);

/* keynamesIsInUse for what keynamesOpenSide has opened. */
bool keynamesSideIsInUse(RedisModuleString *name, const RedisModuleKey *side,
                         enum keyAccess access);

/* `prefix` and the lock's name, as a new string: free it with RedisModule_FreeString. */
RedisModuleString *keynamesSide(RedisModuleCtx *ctx, const char *prefix, RedisModuleString *name);

/* Whether the side keys of this lock can live in its slot. Only a cluster cares: a name like `a}b`
 * has no tag, and in braces it would get the wrong one. */
bool keynamesServeCluster(RedisModuleString *name);

/* Whether the side keys of this lock are on this node and on no other. While a slot moves, by MIGRATE,
 * its keys travel one by one: a side key that is missing here may be on the other node, and made
 * here it would stop the move, which finds it twice. So whoever is about to use a side key in a
 * cluster asks first. True at once where there is no cluster, or no such key. Costs about 1.5 µs. */
bool keynamesSidesAreHere(RedisModuleCtx *ctx, RedisModuleString *name);

#endif
