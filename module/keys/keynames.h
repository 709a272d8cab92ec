/* The names of a lock's side keys, and how any key of the module is opened.
 *
 * A side key hashes to its lock's slot: a name with a hash tag keeps it, any other name is put in
 * braces and so becomes the hash tag.
 */
#ifndef LOCK_KEYNAMES_H
#define LOCK_KEYNAMES_H

#include <stdbool.h>

#include "redismodule.h"

/* With KEY_TO_READ nothing is ever changed, so it can be used on replicas too. */
enum keyAccess { KEY_TO_READ, KEY_TO_WRITE };

/* Opens the key in the selected database. NULL if it is opened to read and does not exist, or if it
 * is opened to write and is in use: see keynamesIsInUse. To be closed with RedisModule_CloseKey,
 * which accepts NULL too. */
RedisModuleKey *keynamesOpen(RedisModuleCtx *ctx, RedisModuleString *name, enum keyAccess access);

/* Whether a key that keynamesOpen has opened for `access` is in use: the server is writing it to a
 * snapshot in the background (Valkey 9.2, without a fork), and allows no writes to it meanwhile.
 * Its content is not known then: it must not be mistaken for a key that does not exist.
 *
 * A step (a command, a grant pass, a release) first opens all keys that it writes to, and changes
 * nothing if one is in use. A key that could be opened can be opened until the step ends: the
 * server chooses the keys that it works on in the thread in which the module runs, so not while the
 * module runs. */
static inline bool keynamesIsInUse(const RedisModuleKey *key, enum keyAccess access) {
    return !key && access == KEY_TO_WRITE;
}

/* The same for a side key of the lock `name`. Also NULL, with either access, if the side keys of
 * this lock cannot be in its slot: a key of another slot must not be opened within a command. */
RedisModuleKey *keynamesOpenSide(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *side, enum keyAccess access);

/* keynamesIsInUse for a key that keynamesOpenSide has opened. */
bool keynamesSideIsInUse(RedisModuleString *name, const RedisModuleKey *side,
                         enum keyAccess access);

/* `prefix` and the lock's name, as a new string, to be freed with RedisModule_FreeString. */
RedisModuleString *keynamesSide(RedisModuleCtx *ctx, const char *prefix, RedisModuleString *name);

/* Whether the side keys of this lock can be in its slot. This matters only in a cluster: a name
 * like `a}b` has no hash tag, and in braces it would get the wrong one. */
bool keynamesServeCluster(RedisModuleString *name);

/* Whether the side keys of this lock are on this node and on no other. While a slot is moved by
 * MIGRATE, its keys are moved one by one: a side key that is missing here may be on the other node.
 * If it were created here, the move would stop, because the key would exist at both ends. So in a
 * cluster this is called before a side key is used. True without a test if there is no cluster, or
 * if the lock can have no side keys. Costs about 1.5 µs. */
bool keynamesSidesAreHere(RedisModuleCtx *ctx, RedisModuleString *name);

#endif
