/* Multi-key locks: several locks for one owner, all or none; opened, judged and taken together.
 *
 * A request for several keys is exclusive in each. It fits when every lock fits by rule 1 and
 * nobody stands in its way there by rule 3; a lock that its owner holds already fits always (rule
 * 2).
 */
#ifndef LOCK_MULTIKEY_H
#define LOCK_MULTIKEY_H

#include <stdbool.h>
#include <stddef.h>

#include "grant/holding.h"
#include "keys/holds.h"
#include "redismodule.h"
#include "waits/contended.h"
#include "waits/waiters.h"

/* The names of the locks that a command is about. */
struct multikeyNames {
    RedisModuleString **names;
    size_t count;
};

/* The same names, each once: one that is given twice is one lock. Free `names` with memFree; what
 * they point to is the caller's still. */
struct multikeyNames multikeyDistinct(const struct multikeyNames *given);

struct multikeyKey {
    struct holds *holds; /* the caller's, or `opened` */
    struct holds opened;
    enum verdict verdict; /* after multikeyJudge */
};

struct multikey {
    size_t count, room;
    struct multikeyKey keys[];
};

/* With room for so many keys. To be closed with multikeyClose. */
struct multikey *multikeyNew(size_t room);

/* Opens one more lock for writing, in the selected database. `name` must outlive it. Nothing
 * stays open that opening another lock may take away under the handle, which is what is over among
 * its leases: the leases of a read-write lock are closed again, until they are asked for, because
 * two locks may share their side keys (`a` and `{a}`); and so is a key that is no lock, because it
 * may be another lock's side key. */
void multikeyOpen(struct multikey *locks, RedisModuleCtx *ctx, RedisModuleString *name,
                  int64_t now_ms);

/* Closes what was opened, and frees it. */
void multikeyClose(struct multikey *locks);

/* Whether the owner, who stands nowhere yet, may have them all now. RESULT_DONE; RESULT_BUSY: has
 * to wait; RESULT_WRONG_TYPE, RESULT_TOO_MANY_HOLDS; RESULT_DEADLOCK: waits for itself, because it
 * holds lock number `*own` as another kind of lock. */
enum result multikeyJudge(struct multikey *locks, const struct acquisition *wants, size_t *own);

/* Takes them all, after multikeyJudge has said RESULT_DONE; `inflight` as for holdingTake. */
void multikeyTake(struct multikey *locks, const struct acquisition *wants,
                  struct inflight *inflight);

/* For the grant pass over the lock of `holds`: gives the waiter, one of several keys, all of them
 * if it fits now. Returns whether the waiter is gone. */
bool multikeyGrant(struct holds *holds, struct waiter *waiter);

#endif
