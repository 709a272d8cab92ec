/* Giving one hold back, short of handing the lock on. */
#ifndef LOCK_GIVEBACK_H
#define LOCK_GIVEBACK_H

#include <stdint.h>

#include "core/rules.h"
#include "grant/grantresult.h"
#include "keys/holds.h"
#include "redismodule.h"

/* Which hold is to be released. */
enum releaseWhich { RELEASE_ONLY_MODE, RELEASE_READ, RELEASE_WRITE };

/* Which mode that is for this lock. GRANT_DONE (`*mode`; whether the owner has a hold in it is not
 * said), GRANT_BOTH_MODES or GRANT_WRONG_TYPE. */
enum grantResult givebackMode(struct holds *holds, RedisModuleString *owner,
                              enum releaseWhich which, enum lockMode *mode);

/* Releases one hold in this mode. Returns how many the owner has left in it, or -1 if it had
 * none: then nothing is changed. After 0 the caller hands the lock on. */
int64_t givebackHold(struct holds *holds, RedisModuleString *owner, enum lockMode mode);

#endif
