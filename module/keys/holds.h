/* Who holds a lock: its key, opened.
 *
 *   plain lock        hash {owner: hold count}, TTL = lease
 *   read-write lock   hash {mode: read|write, owner: read holds, owner:write: write holds},
 *                     TTL = the end of the last lease
 *   semaphore         hash {mode: semaphore, owner: permits}, TTL = the end of the last lease
 *
 * The key is the truth about holds. Memory has nothing of it but the sum of the holds of a lock
 * with many holders (tally.h). A handle is opened, used and closed within one command or one step
 * of the drain, in one database, with one time: on Redis 7.0 a key can expire between two accesses.
 * Each write here is also propagated (propagate.h).
 */
#ifndef LOCK_HOLDS_H
#define LOCK_HOLDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/rules.h"
#include "keys/keynames.h"
#include "keys/leases.h"
#include "redismodule.h"
#include "server/reply.h"

/* The end of a lease that never ends: the key has no TTL. */
#define HOLDS_NO_END LEASES_NO_END

enum holdsKind {
    HOLDS_FREE,       /* no key */
    HOLDS_PLAIN,      /* a plain lock */
    HOLDS_READ_WRITE, /* a read-write lock */
    HOLDS_SEMAPHORE,
    HOLDS_FOREIGN,    /* a hash not written by the module: held by an owner that cannot be named */
    HOLDS_WRONG_TYPE, /* not a hash */
    /* A read-write lock or a semaphore whose leases may be on another node: see
     * holdsOpenToWrite. */
    HOLDS_MOVING,
    /* The key, or its leases, cannot be written to now: keynamesIsInUse. */
    HOLDS_IN_USE
};

struct holds {
    RedisModuleCtx *ctx;
    RedisModuleString *name; /* belongs to the caller */
    RedisModuleKey *key;
    int64_t now_ms;
    enum keyAccess access;
    enum holdsKind kind;
    /* For HOLDS_READ_WRITE and HOLDS_SEMAPHORE: what the field `mode` says. */
    enum lockMode mode;
    enum { SIDES_UNKNOWN, SIDES_HERE, SIDES_MOVING } sides; /* see holdsSidesAreHere */
    struct leases leases;                                   /* see leasedholdsLeases */
    bool has_dead; /* expired holds of readers are in the key: see rwholdsOpen */
};

/* Opens the lock `name` in the selected database of `ctx`; `now_ms` is the unix time. Always to be
 * closed with holdsClose, whatever the kind. Returns the kind, which is also stored in the handle.
 *
 * To write: this removes expired holds of a read-write lock. But while the slot of the lock moves
 * to another node the kind is HOLDS_MOVING, and no function here changes the lock; the same is true
 * for HOLDS_IN_USE. */
enum holdsKind holdsOpenToWrite(struct holds *holds, RedisModuleCtx *ctx, RedisModuleString *name,
                                int64_t now_ms);
enum holdsKind holdsOpenToRead(struct holds *holds, RedisModuleCtx *ctx, RedisModuleString *name,
                               int64_t now_ms);

/* Closes the key, and the leases if they are open. */
void holdsClose(struct holds *holds);

/* keynamesSidesAreHere of this lock, determined once. */
bool holdsSidesAreHere(struct holds *holds);

/* Whether a handle that only reads can tell when leases end: leases in a side key may be on another
 * node while the slot moves. For a handle that may write, the kind says so. */
bool holdsLeasesAreHere(struct holds *holds);

/* Closes the side key only. It is opened again when a lease is needed. */
void holdsCloseLeases(struct holds *holds);

/* Whether holds with leases of their own are possible here: RESULT_DONE if so; RESULT_WRONG_TYPE if
 * another client has written a key of another type under the name of the leases;
 * RESULT_KEY_IN_USE. */
enum result holdsCanLease(struct holds *holds);

/* Whether there is no lock. If another client has removed the last unexpired owner from the key
 * directly, the rest is no lock: it is removed, if the handle may write, and the kind is HOLDS_FREE
 * from then on. O(n) for a semaphore that was opened to read. */
bool holdsIsFree(struct holds *holds);

/* Stores the holds as `owner` sees them; HOLDS_MOVING and HOLDS_IN_USE are seen as foreign. The
 * kind must not be HOLDS_WRONG_TYPE. For a semaphore the handle must be open to write, because
 * permits of the owner that have expired are removed. */
void holdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view);

/* How many holds this owner has in this mode of a plain lock or a read-write lock, as its field
 * says, expired or not; negative if that is no count. 0 for any other kind. O(1), unlike
 * holdsSeenBy. */
int64_t holdsOwn(struct holds *holds, RedisModuleString *owner, enum lockMode mode);

/* For a semaphore: removes expired permits until at most `most` are taken, or only unexpired ones
 * are left; holdsSeenBy counts what is left. A negative `most` means that the lock is to be free:
 * then none are removed while any permits are unexpired. Within a time slice (timeslice.h) it stops
 * when that ends. Returns whether it has removed any. */
bool holdsMakeRoom(struct holds *holds, int64_t most);

/* For a semaphore: removes expired permits, those of at most LEASEDHOLDS_PRUNED_AT_ONCE holders;
 * the kind may be HOLDS_FREE then. A grant pass begins with this. Other kinds of locks have no
 * expired holds left by then. */
void holdsPrune(struct holds *holds);

/* What is acquired. */
struct holdsGrant {
    RedisModuleString *owner;
    enum lockMode mode;
    bool is_first; /* the owner has no hold here, in any mode */
    int64_t count; /* how many holds: permits of a semaphore, 1 of any other lock */
    int64_t lease_ms;
};

/* Gives the owner these holds, which must fit according to rulesDecide with this handle. The lease
 * ends at now + lease_ms, or when the current one ends if that is later. Returns the owner's count
 * in this mode; or 0 if that would exceed RULES_MAX_HOLDS: then nothing is changed. */
int64_t holdsTake(struct holds *holds, const struct holdsGrant *request);

/* Gives the holds that the owner has in this mode a lease as holdsTake does, and adds none: `count`
 * and `is_first` are ignored. Returns how many holds they are. */
int64_t holdsLengthen(struct holds *holds, const struct holdsGrant *request);

/* Releases `count` holds of `owner` in `mode` (1, except for a semaphore). The last hold of the
 * last owner deletes the key. The lease of the remaining holds does not change. Returns how many
 * holds the owner has left in this mode; or -1 if it had fewer: then nothing is changed. */
int64_t holdsRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode,
                     int64_t count);

/* Gives `owner` a lease that ends at now + lease_ms, later or earlier than the current one. Returns
 * the owner's hold count; or 0 if it has none: then nothing is changed. */
int64_t holdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms);

/* Removes all holds of `owner`, in every mode. Returns how many it had. */
int64_t holdsDrop(struct holds *holds, RedisModuleString *owner);

/* Deletes the key, whoever holds the lock. Returns whether there was a lock. The kind must not be
 * HOLDS_MOVING or HOLDS_IN_USE. */
bool holdsForce(struct holds *holds);

/* When the next lease here ends, unix ms; HOLDS_NO_END for a free lock or a key without TTL. For a
 * semaphore it may be past: expired permits stay until they are removed. */
int64_t holdsNextEnd(struct holds *holds);

/* When the last lease of this owner's holds, in any mode, ends, unix ms, or HOLDS_NO_END; 0 if it
 * has no unexpired hold here. For any kind. */
int64_t holdsEndOf(struct holds *holds, RedisModuleString *owner);

/* An owner, and the lock whose holds are meant. */
struct holdsOwner {
    int db;
    RedisModuleString *name, *owner; /* both belong to the caller */
};

/* Whether the owner has unexpired holds of the lock. Selects the database. */
bool holdsAreThere(RedisModuleCtx *ctx, const struct holdsOwner *of, int64_t now_ms);

/* One holder, as holdsEach passes it on. */
struct holder {
    RedisModuleString *owner; /* valid during the call */
    enum lockMode mode;
    int64_t count;
};

/* When the lease of this hold ends, unix ms, or HOLDS_NO_END. */
int64_t holdsLeaseEnd(struct holds *holds, const struct holder *holder);

/* Calls `visit` for each owner and mode with an unexpired hold, in no order; not at all for a free
 * lock, a foreign hash, HOLDS_MOVING or HOLDS_IN_USE. */
void holdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
               void *context);

/* ---- the key itself ---- */

/* When the key expires, unix ms; LEASES_NO_END if never, or if there is no key. */
int64_t holdsKeyEnd(const struct holds *holds);

/* When a lease of `lease_ms` from now ends, unix ms. A request was checked not to overflow when it
 * was made. It may be granted later; then the lease ends at the last time that is not
 * LEASES_NO_END. */
int64_t holdsEndAfter(const struct holds *holds, int64_t lease_ms);

/* Makes the key expire at `end_ms`, unix ms; LEASES_NO_END: never. */
void holdsSetKeyEnd(struct holds *holds, int64_t end_ms);

/* The count in this field; 0 if there is no such field, -1 if it has no count. */
int64_t holdsCount(struct holds *holds, RedisModuleString *field);

/* The text of this mode in the field `mode`; NULL for MODE_EXCLUSIVE. */
const char *holdsModeText(enum lockMode mode);

/* Whether `value`, of a field, is a count; if so stores it. */
bool holdsParseCount(RedisModuleString *value, int64_t *count);

/* How many fields the hash has. */
size_t holdsFieldCount(const struct holds *holds);

/* Writes a field, and does not propagate it. */
void holdsPut(struct holds *holds, RedisModuleString *field, int64_t count);

/* Deletes the key. */
void holdsDelete(struct holds *holds);

#endif
