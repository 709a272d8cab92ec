/* The lock's own key, opened: what plain and read-write locks have in common.
 *
 *   plain lock        hash {owner: hold count}, TTL = lease
 *   read-write lock   hash {mode: read|write, owner: read holds, owner:write: write holds},
 *                     TTL = the end of the last lease
 *
 * The key is the truth about holds; nothing of it is kept in memory. A handle is opened, used and
 * closed within one command or one step of the drain, in one database, with one time: on Redis 7.0
 * a key can expire between two looks at it.
 *
 * Each write here also announces itself (effects.h).
 */
#ifndef LOCK_LOCKKEY_H
#define LOCK_LOCKKEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/rules.h"
#include "keys/keynames.h"
#include "keys/leases.h"
#include "redismodule.h"

enum holdsShape {
    HOLDS_FREE,       /* no key */
    HOLDS_PLAIN,      /* a plain lock */
    HOLDS_READ_WRITE, /* a read-write lock */
    HOLDS_FOREIGN, /* a hash that the module did not write: held by somebody that we cannot name */
    HOLDS_WRONG_TYPE, /* no hash at all */
    HOLDS_MOVING      /* a read-write lock whose leases may be on another node: see holdsOpen */
};

struct holds {
    RedisModuleCtx *ctx;
    RedisModuleString *name; /* the caller's */
    RedisModuleKey *key;
    int64_t now_ms;
    enum keyAccess access;
    enum holdsShape shape;
    enum lockMode mode; /* of HOLDS_READ_WRITE: what its field `mode` says */
    enum { SIDES_UNKNOWN, SIDES_HERE, SIDES_MOVING } sides; /* see holdsSidesAreHere */
    struct leases leases;                                   /* see rwholdsLeases */
    bool has_dead; /* readers' holds are in the key whose leases are over: see rwholdsOpen */
};

/* Opens the key and finds out its shape; does not open `leases`. */
void lockkeyOpen(struct holds *holds, RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms,
                 enum keyAccess access);

/* Whether a key of the shape HOLDS_PLAIN says `mode` and nothing else: somebody has taken the last
 * owner out of a read-write lock by hand. Not asked when it is opened, as plain locks would pay. */
bool lockkeyHasModeOnly(struct holds *holds);

/* When the key expires, unix ms; LEASES_NO_END if never, or if there is no key. */
int64_t lockkeyEnd(const struct holds *holds);

/* When a lease of `lease_ms` from now ends. A request was checked not to overflow at its own time;
 * it may be granted later, and then ends at the last time that is not "never". */
int64_t lockkeyEndAfter(const struct holds *holds, int64_t lease_ms);

/* Lets the key expire at `end_ms`; LEASES_NO_END: never. */
void lockkeySetEnd(struct holds *holds, int64_t end_ms);

/* The count in this field; 0 when there is no such field, -1 when it holds no count. */
int64_t lockkeyCount(struct holds *holds, RedisModuleString *field);

/* How the field `mode` says MODE_READ or MODE_WRITE. */
const char *lockkeyModeText(enum lockMode mode);

/* Whether `value`, of a field, is a count; if so stores it. */
bool lockkeyParseCount(RedisModuleString *value, int64_t *count);

/* How many fields the hash has. */
size_t lockkeyFieldCount(const struct holds *holds);

/* Writes a field, and announces nothing. */
void lockkeyPut(struct holds *holds, RedisModuleString *field, int64_t count);

/* Deletes the key. */
void lockkeyDelete(struct holds *holds);

#endif
