/* Who holds a lock: its key, opened.
 *
 *   plain lock        hash {owner: hold count}, TTL = lease
 *   read-write lock   hash {mode: read|write, owner: read holds, owner:write: write holds},
 *                     TTL = the end of the last lease
 *   semaphore         hash {mode: semaphore, owner: permits}, TTL likewise
 *
 * The key is the truth about holds; memory has none of it but the sum of a semaphore's permits
 * (tally.h). A handle is opened, used and
 * closed within one command or one step of the drain, in one database, with one time: on Redis 7.0
 * a key can expire between two looks at it. Each write here also announces itself (effects.h).
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

enum holdsShape {
    HOLDS_FREE,       /* no key */
    HOLDS_PLAIN,      /* a plain lock */
    HOLDS_READ_WRITE, /* a read-write lock */
    HOLDS_SEMAPHORE,
    HOLDS_FOREIGN, /* a hash that the module did not write: held by somebody that we cannot name */
    HOLDS_WRONG_TYPE, /* no hash at all */
    HOLDS_MOVING,     /* one of the two whose leases may be on another node: see holdsOpenToWrite */
    HOLDS_IN_USE      /* the key, or its leases, cannot be written to now: keynamesIsInUse */
};

struct holds {
    RedisModuleCtx *ctx;
    RedisModuleString *name; /* the caller's */
    RedisModuleKey *key;
    int64_t now_ms;
    enum keyAccess access;
    enum holdsShape shape;
    enum lockMode mode; /* of HOLDS_READ_WRITE and HOLDS_SEMAPHORE: what its field `mode` says */
    enum { SIDES_UNKNOWN, SIDES_HERE, SIDES_MOVING } sides; /* see holdsSidesAreHere */
    struct leases leases;                                   /* see leasedholdsLeases */
    bool has_dead; /* readers' holds are in the key whose leases are over: see rwholdsOpen */
};

/* Opens the lock `name` in the selected database of `ctx`. To write: holds of a read-write lock
 * whose leases are over are taken away; but while its slot moves to another node the shape is
 * HOLDS_MOVING, and nothing here touches it, and the same while it is HOLDS_IN_USE. Always to be closed with holdsClose, whatever the
 * shape. Returns the shape, which it also keeps. */
enum holdsShape holdsOpenToWrite(struct holds *holds, RedisModuleCtx *ctx, RedisModuleString *name,
                                 int64_t now_ms);
enum holdsShape holdsOpenToRead(struct holds *holds, RedisModuleCtx *ctx, RedisModuleString *name,
                                int64_t now_ms);

void holdsClose(struct holds *holds);

/* keynamesSidesAreHere of this lock, asked once. */
bool holdsSidesAreHere(struct holds *holds);

/* Whether a handle that only reads can tell when leases end: those that are in a side key are not
 * always here while the slot moves. Of one that may write the shape says so. */
bool holdsLeasesAreHere(struct holds *holds);

/* Closes the side key only; what asks for a lease opens it again. */
void holdsCloseLeases(struct holds *holds);

/* Whether what has leases of its own can be held here: RESULT_DONE; RESULT_WRONG_TYPE while another
 * client has put something of another type under the name of the leases; RESULT_KEY_IN_USE. */
enum result holdsCanLease(struct holds *holds);

/* Whether there is no lock. What is left of one out of which somebody has taken the last living
 * owner by hand is none: it is taken away, if the handle may write, and the shape is HOLDS_FREE
 * from then on. O(n) of a semaphore that is only read. */
bool holdsIsFree(struct holds *holds);

/* The holds as `owner` sees them: of HOLDS_MOVING and HOLDS_IN_USE, foreign ones. The shape must not be
 * HOLDS_WRONG_TYPE; and of a semaphore the handle must be one that may write, as what the owner has
 * by a lease that is over goes. */
void holdsSeenBy(struct holds *holds, RedisModuleString *owner, struct holdsView *view);

/* How many holds this owner has in this mode of a plain lock or a read-write lock, as its field says,
 * expired or not; below 0: that is no count. 0 of any other shape. O(1), unlike holdsSeenBy. */
int64_t holdsOwn(struct holds *holds, RedisModuleString *owner, enum lockMode mode);

/* Of a semaphore: takes permits away whose leases are over until no more than `most` are taken, or
 * only the living have any; holdsSeenBy counts what is left. With a negative `most` nobody is to
 * have any: then none is taken away where somebody lives. In a turn (turn.h) no longer than that.
 * Returns whether it has taken any away. */
bool holdsMakeRoom(struct holds *holds, int64_t most);

/* Of a semaphore: takes permits away whose leases are over, of very many holders some; the shape
 * may be HOLDS_FREE then. What a pass begins with: of other locks nothing is left that is over. */
void holdsPrune(struct holds *holds);

/* What is taken. */
struct holdsRequest {
    RedisModuleString *owner;
    enum lockMode mode;
    bool is_first; /* the owner has no hold here, in whatever mode */
    int64_t count; /* how many holds: permits of a semaphore, 1 of any other lock */
    int64_t lease_ms;
};

/* Gives the owner these holds, which must fit (rulesDecide said so for this handle), with a lease
 * that ends at now + lease_ms, or when the running one ends if that is later. Returns the owner's
 * count in this mode, or 0 if that would exceed RULES_MAX_HOLDS: then nothing is changed. */
int64_t holdsTake(struct holds *holds, const struct holdsRequest *request);

/* Gives the holds that the owner has in this mode a lease as holdsTake does, and adds none: `count`
 * and `is_first` are not looked at. Returns how many they are. */
int64_t holdsLengthen(struct holds *holds, const struct holdsRequest *request);

/* Takes `count` holds of `owner` in `mode` back (1, but of a semaphore); the last hold of the last
 * owner deletes the key. The lease of what is left stays as it is. Returns how many holds the owner
 * has left in this mode, or -1 if it had fewer: then nothing is changed. */
int64_t holdsRelease(struct holds *holds, RedisModuleString *owner, enum lockMode mode,
                     int64_t count);

/* Gives `owner` a lease that ends at now + lease_ms, longer or shorter than the running one.
 * Returns the owner's hold count, or 0 if it has none: then nothing is changed. */
int64_t holdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms);

/* Takes all holds of `owner` away, in every mode. Returns how many it had. */
int64_t holdsDrop(struct holds *holds, RedisModuleString *owner);

/* Deletes the key, whoever holds the lock. Returns whether there was one. The shape must not be
 * HOLDS_MOVING or HOLDS_IN_USE. */
bool holdsForce(struct holds *holds);

/* When the next lease here ends, unix ms; HOLDS_NO_END for a free lock or a key without TTL. Of a
 * semaphore what is over is taken away first, if the handle may write. */
int64_t holdsNextEnd(struct holds *holds);

/* When the last lease of this owner's holds, in whatever mode, ends, unix ms; HOLDS_NO_END; or 0 if
 * it holds nothing here by a lease that is not over. Of any shape. */
int64_t holdsEndOf(struct holds *holds, RedisModuleString *owner);

/* Whose holds, of which lock. */
struct holdsOwner {
    int db;
    RedisModuleString *name, *owner; /* the caller's */
};

/* Whether there are such holds, by a lease that is not over. Selects the database. */
bool holdsAreThere(RedisModuleCtx *ctx, const struct holdsOwner *of, int64_t now_ms);

/* One holder, as holdsEach tells it. */
struct holder {
    RedisModuleString *owner; /* valid during the call */
    enum lockMode mode;
    int64_t count;
};

/* When the lease of this hold ends, unix ms, or HOLDS_NO_END. */
int64_t holdsLeaseEnd(struct holds *holds, const struct holder *holder);

/* Calls `visit` for each owner and mode that holds the lock by a lease that is not over, in no
 * order. Nobody for a free lock, a foreign hash, HOLDS_MOVING or HOLDS_IN_USE. */
void holdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
               void *context);

/* ---- the key itself ---- */

/* When the key expires, unix ms; LEASES_NO_END if never, or if there is no key. */
int64_t holdsKeyEnd(const struct holds *holds);

/* When a lease of `lease_ms` from now ends. A request was checked not to overflow at its own time;
 * it may be granted later, and then ends at the last time that is not "never". */
int64_t holdsEndAfter(const struct holds *holds, int64_t lease_ms);

/* Lets the key expire at `end_ms`; LEASES_NO_END: never. */
void holdsSetKeyEnd(struct holds *holds, int64_t end_ms);

/* The count in this field; 0 when there is no such field, -1 when it holds no count. */
int64_t holdsCount(struct holds *holds, RedisModuleString *field);

/* How the field `mode` says this mode; NULL for MODE_EXCLUSIVE. */
const char *holdsModeText(enum lockMode mode);

/* Whether `value`, of a field, is a count; if so stores it. */
bool holdsParseCount(RedisModuleString *value, int64_t *count);

/* How many fields the hash has. */
size_t holdsFieldCount(const struct holds *holds);

/* Writes a field, and announces nothing. */
void holdsPut(struct holds *holds, RedisModuleString *field, int64_t count);

/* Deletes the key. */
void holdsDelete(struct holds *holds);

#endif
