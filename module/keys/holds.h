/* Who holds a lock. A handle is the opened key of one lock.
 *
 *   plain lock        hash {owner: hold count}, TTL = lease
 *   read-write lock   hash {mode: read|write, owner: read holds, owner:write: write holds},
 *                     TTL = the end of the last lease
 *   semaphore         hash {mode: semaphore, owner: permits}, TTL = the end of the last lease
 *
 * The key is the only record of the holds. Memory only contains the sum of the holds of a lock with
 * many holders (tally.h). Each write here is also propagated (propagate.h).
 *
 * A handle is opened, used and closed within one command or one step of the drain, in one database.
 * All functions use the time at which it was opened, because on Redis 7.0 a key can expire between
 * two accesses.
 */
#ifndef LOCK_HOLDS_H
#define LOCK_HOLDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/reply.h"
#include "core/rules.h"
#include "keys/keynames.h"
#include "keys/leases.h"
#include "redismodule.h"

/* The end of a lease that never ends, because the key has no TTL. */
#define HOLDS_NO_END LEASES_NO_END

enum holdsKind {
    HOLDS_FREE,       /* no key */
    HOLDS_PLAIN,      /* a plain lock */
    HOLDS_READ_WRITE, /* a read-write lock */
    HOLDS_SEMAPHORE,
    HOLDS_FOREIGN,    /* another client's hash; counts as held by an owner that cannot be named */
    HOLDS_WRONG_TYPE, /* not a hash */
    /* A read-write lock or a semaphore whose leases may be on another node (see
     * holdsOpenToWrite). */
    HOLDS_MOVING,
    /* The key, or its leases, cannot be written to now (see keynamesIsInUse). */
    HOLDS_IN_USE
};

struct holds {
    RedisModuleCtx *ctx;
    RedisModuleString *name; /* belongs to the caller */
    RedisModuleKey *key;
    int64_t now_ms;
    enum keyAccess access;
    enum holdsKind kind;
    /* For HOLDS_READ_WRITE and HOLDS_SEMAPHORE: the mode that the field `mode` contains. */
    enum lockMode mode;
    enum { SIDES_UNKNOWN, SIDES_HERE, SIDES_MOVING } sides; /* see holdsSidesAreHere */
    struct leases leases;                                   /* see leasedholdsLeases */
    bool has_dead; /* the key contains expired holds of readers (see rwholdsOpen) */
};

/* Opens the lock `name` in the selected database of `ctx`. `now_ms` is the unix time. Always to be
 * closed with holdsClose, whatever the kind. Returns the kind, which is also stored in the handle.
 *
 * holdsOpenToWrite also removes expired holds of a read-write lock. While the slot of a read-write
 * lock or a semaphore is moved to another node, the kind is HOLDS_MOVING. No function here changes
 * a lock of the kind HOLDS_MOVING or HOLDS_IN_USE. */
enum holdsKind holdsOpenToWrite(struct holds *holds, RedisModuleCtx *ctx, RedisModuleString *name,
                                int64_t now_ms);
enum holdsKind holdsOpenToRead(struct holds *holds, RedisModuleCtx *ctx, RedisModuleString *name,
                               int64_t now_ms);

/* Closes the key, and the leases if they are open. */
void holdsClose(struct holds *holds);

/* The result of keynamesSidesAreHere for this lock. It is determined once for each handle. */
bool holdsSidesAreHere(struct holds *holds);

/* Whether a handle that was opened to read can determine when leases end. It cannot while the slot
 * is moved, because leases in a side key may be on another node. A handle that was opened to write
 * has the kind HOLDS_MOVING in this case. */
bool holdsLeasesAreHere(struct holds *holds);

/* Closes the key of the leases only. It is opened again when a lease is needed. */
void holdsCloseLeases(struct holds *holds);

/* Whether holds of this lock can have leases of their own. Returns:
 *
 *   RESULT_DONE          they can
 *   RESULT_WRONG_TYPE    another client has written a key of another type under the leases' name
 *   RESULT_KEY_IN_USE    the key of the leases is in use (see keynamesIsInUse)
 */
enum result holdsCanLease(struct holds *holds);

/* Whether the lock is free. If another client has removed the last unexpired owner from the key
 * directly, the remaining fields are not a lock. A handle that was opened to write then removes
 * them, and its kind becomes HOLDS_FREE. O(n) for a semaphore that was opened to read. */
bool holdsIsFree(struct holds *holds);

/* Stores in `view` the holds as `owner` sees them. HOLDS_MOVING and HOLDS_IN_USE are seen as
 * foreign. The kind must not be HOLDS_WRONG_TYPE. For a semaphore the handle must be opened to
 * write, because expired permits of the owner are removed. */
void holdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view);

/* The number in the field of this owner's holds in this mode of a plain lock or a read-write lock.
 * Expired holds are included. Negative if the field contains no count; 0 for any other kind. O(1),
 * unlike holdsSeenBy. */
int64_t holdsOwn(struct holds *holds, RedisModuleString *owner, enum lockMode mode);

/* For a semaphore: removes expired permits until at most `most` permits are taken, or only
 * unexpired permits are left. holdsSeenBy counts the permits that are left. A negative `most` means
 * that the lock is to become free. In this case nothing is removed while any permits are unexpired.
 * If a time slice has begun (timeslice.h), stops when the time slice ends. Returns whether any
 * permits were removed. */
bool holdsMakeRoom(struct holds *holds, int64_t most);

/* For a semaphore: removes expired permits of at most LEASEDHOLDS_PRUNED_AT_ONCE holders. After
 * that the kind may be HOLDS_FREE. Each grant pass begins with this function. It does nothing for
 * other kinds of locks, whose expired holds are removed when the lock is opened. */
void holdsPrune(struct holds *holds);

/* What is acquired. */
struct holdsGrant {
    RedisModuleString *owner;
    enum lockMode mode;
    bool is_first; /* the owner has no hold here, in any mode */
    int64_t count; /* how many permits of a semaphore; 1 for any other lock */
    int64_t lease_ms;
};

/* Gives the owner these holds, which must fit according to rulesDecide with this handle. The lease
 * ends at now + lease_ms, or when the current lease ends if that is later. Returns the owner's
 * count in this mode. If the count would exceed RULES_MAX_HOLDS, returns 0 and changes nothing. */
int64_t holdsTake(struct holds *holds, const struct holdsGrant *request);

/* Lengthens the lease of the holds that the owner has in this mode, as holdsTake does, and adds no
 * holds. `count` and `is_first` are ignored. Returns how many holds the owner has in this mode. */
int64_t holdsLengthen(struct holds *holds, const struct holdsGrant *request);

/* Releases `count` holds of `owner` in `mode`. `count` is 1 except for a semaphore. The release of
 * the last hold of the last owner deletes the key. The lease of the remaining holds does not
 * change. Returns how many holds the owner has left in this mode. If it has fewer than `count`,
 * returns -1 and changes nothing. */
int64_t holdsRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode,
                     int64_t count);

/* Gives all holds of `owner` a lease that ends at now + lease_ms, even if the current lease ends
 * later. Returns the owner's hold count. If the owner has no hold, returns 0 and changes nothing.
 */
int64_t holdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms);

/* Removes all holds of `owner`, in every mode. Returns how many holds the owner had. */
int64_t holdsDrop(struct holds *holds, RedisModuleString *owner);

/* Deletes the key, whoever holds the lock. Returns whether there was a lock. The kind must not be
 * HOLDS_MOVING or HOLDS_IN_USE. */
bool holdsForce(struct holds *holds);

/* When the next lease of this lock ends, unix ms; HOLDS_NO_END for a free lock or a key without
 * TTL. For a semaphore the time may be in the past, because expired permits stay in the key until
 * they are removed. */
int64_t holdsNextEnd(struct holds *holds);

/* When the last lease of this owner's holds in any mode ends, unix ms, or HOLDS_NO_END; 0 if the
 * owner has no unexpired hold of this lock. For any kind. */
int64_t holdsEndOf(struct holds *holds, RedisModuleString *owner);

/* The holds of one owner on one lock. Everything that the module remembers of holds, beside the
 * keys, is remembered by this. */
struct holdId {
    int db;
    RedisModuleString *name, *owner; /* both belong to the caller */
};

/* The holds of this owner on the lock of this handle. */
static inline struct holdId holdsIdOf(const struct holds *holds, RedisModuleString *owner) {
    return (struct holdId){RedisModule_GetSelectedDb(holds->ctx), holds->name, owner};
}

/* Whether the owner has unexpired holds of the lock. Selects the database `id->db`. */
bool holdsAreThere(RedisModuleCtx *ctx, const struct holdId *id, int64_t now_ms);

/* What holdsEach passes to `visit`: the holds of one owner in one mode. */
struct holder {
    RedisModuleString *owner; /* valid during the call */
    enum lockMode mode;
    int64_t count;
};

/* When the lease of this hold ends, unix ms, or HOLDS_NO_END. */
int64_t holdsLeaseEnd(struct holds *holds, const struct holder *holder);

/* Calls `visit` for each owner and mode with an unexpired hold, in no particular order. Does not
 * call it for a free lock, a foreign hash, HOLDS_MOVING or HOLDS_IN_USE. */
void holdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
               void *context);

/* The count in this field; 0 if there is no such field, -1 if the field contains no count. */
int64_t holdsCount(struct holds *holds, RedisModuleString *field);

/* How many fields the hash has. */
size_t holdsFieldCount(const struct holds *holds);

/* Makes and frees what is kept between commands. To be called when the module is loaded, before a
 * lock is opened, and when it is unloaded. */
void holdsBegin(void);
void holdsFree(void);

#endif
