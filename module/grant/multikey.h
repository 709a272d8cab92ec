/* Multi-key locks: one owner acquires several locks, all or none. The locks are opened, checked and
 * acquired together.
 *
 * A request for several keys has a mode for each of them. It fits if, for every lock, it fits the
 * holds (rule 1) and need not wait behind another request (rule 3). A lock that the owner already
 * holds need not wait behind others (rule 2). The rules are in docs/design.md.
 */
#ifndef LOCK_MULTIKEY_H
#define LOCK_MULTIKEY_H

#include <stdbool.h>
#include <stddef.h>

#include "grant/holding.h"
#include "keys/holds.h"
#include "queue/waiters.h"
#include "redismodule.h"
#include "waits/contended.h"

/* One lock of a command: MODE_READ, MODE_WRITE or MODE_EXCLUSIVE. */
struct multikeyLock {
    RedisModuleString *name;
    enum lockMode mode;
};

struct multikeyLocks {
    struct multikeyLock *each;
    size_t count;
};

/* Removes duplicates, because a name that is given twice counts as one lock: to write, unless it is
 * given twice to read. */
void multikeyMakeDistinct(struct multikeyLocks *locks);

/* Whether one of the locks has the name of the leases of another one, which is to be read or to be
 * written: only one of the two can exist, so they cannot be acquired together. No name may occur
 * twice. */
bool multikeyHaveLeasesAmong(RedisModuleCtx *ctx, const struct multikeyLocks *locks);

struct multikeyKey {
    struct holds *holds; /* `opened`, or a handle of the caller */
    struct holds opened;
    enum lockMode mode;
    enum verdict verdict; /* set by multikeyJudge */
};

struct multikey {
    size_t count, room;
    bool may_share; /* two of the locks may have the same side keys */
    struct multikeyKey keys[];
};

/* Opens the locks to write, in the selected database and in the given order. Their names must
 * outlive the result, which is to be freed with multikeyClose. Keys that the opening of another
 * lock may delete are closed again. These are the leases of a read-write lock or a semaphore, if
 * two of the locks may share their side keys (`a` and `{a}`), because expired leases are removed on
 * opening; they are opened again when they are needed. And a key that is not a lock, because it may
 * be another lock's side key. */
struct multikey *multikeyOpen(RedisModuleCtx *ctx, const struct multikeyLocks *wanted,
                              int64_t now_ms);

/* To be called each time that the leases of one of the locks may have been opened. */
void multikeyCloseLeases(const struct multikey *locks, const struct multikeyKey *key);

/* Closes the locks, and frees the struct. */
void multikeyClose(struct multikey *locks);

/* Whether the owner, which is in none of the queues yet, can acquire all locks now. Returns:
 *
 *   RESULT_DONE        it can
 *   RESULT_BUSY        it must wait
 *   RESULT_DEADLOCK    it would wait for itself: it holds one of them as another kind of lock
 *
 * or RESULT_WRONG_TYPE, RESULT_TRY_AGAIN, RESULT_KEY_IN_USE, RESULT_TOO_MANY_HOLDS. If it is not
 * RESULT_DONE, `*because_of` is the index of a lock with this result. */
enum result multikeyJudge(struct multikey *locks, const struct request *wants, size_t *because_of);

/* Acquires all locks. To be called after multikeyJudge has returned RESULT_DONE. `pendingreply` as
 * for holdingTake. */
void multikeyTake(struct multikey *locks, const struct request *wants,
                  struct pendingreply *pendingreply);

/* For the grant pass of the lock of `holds`. If the request of the waiter, which waits for several
 * keys, fits now, grants all of them. Returns whether the waiter no longer waits, because it was
 * granted the locks, or because its wait was ended: its hold count would have exceeded the limit,
 * or the leases of one of its locks are being moved to another node. */
bool multikeyGrant(struct holds *holds, struct waiter *waiter);

#endif
