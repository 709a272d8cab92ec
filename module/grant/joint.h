/* Several locks for one owner, all or none: opened together, judged together, taken together.
 *
 * A request for several keys is exclusive in each. It fits when every lock fits by rule 1 and
 * nobody stands in its way there by rule 3; a lock that its owner holds already fits always (rule
 * 2).
 */
#ifndef LOCK_JOINT_H
#define LOCK_JOINT_H

#include <stdbool.h>
#include <stddef.h>

#include "waits/contended.h"
#include "grant/grantresult.h"
#include "keys/holds.h"
#include "redismodule.h"
#include "grant/take.h"
#include "waits/waiters.h"

struct jointKey {
    struct holds *holds; /* the caller's, or `opened` */
    struct holds opened;
    enum verdict verdict; /* after jointJudge */
};

struct joint {
    size_t count, room;
    struct jointKey keys[];
};

/* With room for so many keys. To be closed with jointClose. */
struct joint *jointNew(size_t room);

/* Opens one more lock for writing, in the selected database. `name` must outlive the joint. Nothing
 * stays open that opening another lock may take away under the handle, which is what is over among
 * its leases: the leases of a read-write lock are closed again, until they are asked for, because
 * two locks may share their side keys (`a` and `{a}`); and so is a key that is no lock, because it
 * may be another lock's side key. */
void jointOpen(struct joint *joint, RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms);

/* Closes what was opened, and frees the joint. */
void jointClose(struct joint *joint);

/* Whether the owner, who stands nowhere yet, may have them all now. GRANT_DONE; GRANT_BUSY: has to
 * wait; GRANT_WRONG_TYPE, GRANT_TOO_MANY_HOLDS; GRANT_DEADLOCK: waits for itself, because it holds
 * lock number `*own` as another kind of lock. */
enum grantResult jointJudge(struct joint *joint, RedisModuleString *owner, size_t *own);

/* Takes them all, after jointJudge has said GRANT_DONE. */
void jointTake(struct joint *joint, const struct take *take);

/* For the grant pass over the lock of `holds`: gives the waiter, one of several keys, all of them
 * if it fits now. Returns whether the waiter is gone. */
bool jointGrant(struct holds *holds, struct waiter *waiter);

#endif
