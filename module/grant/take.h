/* Taking one lock that fits, with everything that belongs to a new hold: the event, the binding to
 * a connection, the fencing token. Whoever gets a lock, at once or after a wait, gets it here.
 */
#ifndef LOCK_TAKE_H
#define LOCK_TAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/rules.h"
#include "grant/grantresult.h"
#include "keys/holds.h"
#include "redismodule.h"
#include "waits/waiters.h"

/* What is asked for. */
struct take {
    RedisModuleString *owner;
    enum lockMode mode;
    int64_t lease_ms;
    unsigned long long session; /* the connection to bind the hold to; 0 = none */
    bool fenced;                /* the answer is to be a fencing token */
};

/* Whether a request of this kind, or its wait, is written down in side keys too. */
bool takeHasSides(const struct take *take, enum discipline discipline);

/* Whether the lock can be looked at and changed: GRANT_DONE; GRANT_WRONG_TYPE; GRANT_TRY_AGAIN for a
 * read-write lock whose slot moves. */
enum grantResult takeCheckKey(const struct holds *holds);

/* Takes the lock; `verdict` is VERDICT_GRANT or VERDICT_REENTER, and was given for this handle.
 * Returns the owner's hold count in this mode, or with `fenced` the token; 0 when the count would
 * exceed its limit: then nothing is changed. */
int64_t takeHold(struct holds *holds, const struct take *take, enum verdict verdict);

/* What this waiter asks for. Its owner stays the waiter's. */
struct take takeOfWaiter(const struct waiter *waiter);

#endif
