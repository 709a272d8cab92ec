/* Several locks for one owner, all or none: opened together, judged together, taken together.
 *
 * A request for several keys is exclusive in each. It fits when every lock fits by rule 1 and
 * nobody stands in its way there by rule 3; a lock that its owner holds already fits always (rule
 * 2).
 */
#ifndef LOCK_MULTIKEY_H
#define LOCK_MULTIKEY_H

#include <stdbool.h>
#include <stddef.h>

#include "grant/grantresult.h"
#include "grant/take.h"
#include "keys/holds.h"
#include "redismodule.h"
#include "waits/contended.h"
#include "waits/waiters.h"

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
void multikeyOpen(struct multikey *multikey, RedisModuleCtx *ctx, RedisModuleString *name,
                  int64_t now_ms);

/* Closes what was opened, and frees it. */
void multikeyClose(struct multikey *multikey);

/* Whether the owner, who stands nowhere yet, may have them all now. GRANT_DONE; GRANT_BUSY: has to
 * wait; GRANT_WRONG_TYPE, GRANT_TOO_MANY_HOLDS; GRANT_DEADLOCK: waits for itself, because it holds
 * lock number `*own` as another kind of lock. */
enum grantResult multikeyJudge(struct multikey *multikey, RedisModuleString *owner, size_t *own);

/* Takes them all, after multikeyJudge has said GRANT_DONE. */
void multikeyTake(struct multikey *multikey, const struct take *take);

/* For the grant pass over the lock of `holds`: gives the waiter, one of several keys, all of them
 * if it fits now. Returns whether the waiter is gone. */
bool multikeyGrant(struct holds *holds, struct waiter *waiter);

#endif
